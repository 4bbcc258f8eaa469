--- @include ./keep-queue.lua
--[[ Lets the entry share the lock for a lease from now on. Never shortens a lease. Always writes, even if nothing
  changes. ]]
local function share(entry, leaseMs)
  redis.call('ZADD', keys.queue, 'NX', 0, entry)
  local left = keepQueue(leaseMs)
  if redis.call('ZADD', keys.queue, 'LT', 'CH', -(1e13 - left + leaseMs), entry) == 0 then
    redis.call('PEXPIRE', keys.queue, left)
  end
end
