--- @include quorum-sharers
--[[ Lets one more share the lock until `ends`; the key lives as long as the last one's lease.
  KEYS[1] lock ]]
local function share(others, mine, ends, nowMs)
  local lease = math.max(redis.call('PTTL', KEYS[1]), ends - nowMs)
  redis.call('SET', KEYS[1], withSharer(others, mine, ends), 'PX', string.format('%.0f', lease))
end
