--- @include ./share-time.lua
--- @include ./marker.lua
--- @include ./mode-of.lua
--[[ Returns who has the lock: how many, and in which mode. An exclusive holder, a closed lock and another client count
  as one without a mode, and have a value. Removes shares that are over, and a marker without shares. ]]
local function readHolders()
  local value = redis.call('GET', keys.lock)
  if value and value ~= marker then
    return { count = 1, value = value }
  end
  redis.call('ZREMRANGEBYSCORE', keys.holders, '-inf', shareTime())
  local first = redis.call('ZRANGE', keys.holders, 0, 0)[1]
  if first then
    return { count = redis.call('ZCARD', keys.holders), mode = modeOf(first) }
  end
  if value then
    redis.call('DEL', keys.lock)
  end
  return { count = 0 }
end
