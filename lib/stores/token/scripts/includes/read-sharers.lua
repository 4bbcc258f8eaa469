--- @include ./mode-of.lua
--- @include ./share-time.lua
--- @include ./has-sharers.lua
--[[ Removes expired sharers and returns the number and mode of the rest.
  An exclusive request skips this if there are no sharers. If the ACL forbids these commands, the request fails.
  It is never granted. ]]
local function readSharers(mode)
  if not mode and not hasSharers() then
    return { count = 0 }
  end
  redis.call('ZREMRANGEBYSCORE', keys.queue, -shareTime(), '(0')
  local count = redis.call('ZCOUNT', keys.queue, '-inf', '(0')
  return { count = count, mode = count > 0 and modeOf(redis.call('ZRANGE', keys.queue, 0, 0)[1]) or nil }
end
