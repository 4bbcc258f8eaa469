--- @include ./with-sharer.lua
--- Adds a sharer until `ends`. The key lives as long as the last sharer's lease.
local function share(others, mine, ends, nowMs)
  local leaseMs = math.max(redis.call('PTTL', keys.lock), ends - nowMs)
  redis.call('SET', keys.lock, withSharer(others, mine, ends), 'PX', string.format('%.0f', leaseMs))
end
