--- @include ./mode-of.lua
--- @include ./share-time.lua
--- @include ./has-sharers.lua
--- @include ./other-wire.lua
--[[ Removes expired sharers and returns the number and mode of the rest.
  An exclusive request skips this if there are no sharers. If the ACL forbids these commands, the request fails.
  It is never granted.
  Sharers of another wire version stay as they are and exclude everybody: `other` is the entry of one of them. ]]
local function readSharers(mode)
  if not mode and not hasSharers() then
    return { count = 0 }
  end
  local first = redis.call('ZRANGE', keys.queue, 0, 0, 'WITHSCORES')
  local isShared = first[1] and tonumber(first[2]) <= 0
  if isShared and otherWire(first[1]) then
    return { count = 0, excluded = true, other = first[1] }
  end
  -- Runs even without sharers, so that an ACL that forbids it refuses the request before the lock is shared.
  redis.call('ZREMRANGEBYSCORE', keys.queue, -shareTime(), '(0')
  if not isShared then
    return { count = 0 }
  end
  local count = redis.call('ZCOUNT', keys.queue, '-inf', '(0')
  return { count = count, mode = count > 0 and modeOf(first[1]) or nil }
end
