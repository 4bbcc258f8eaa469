--- @include ./share-time.lua
--- @include ./keep-life.lua
--- @include ./keep-shares.lua
--- Shares the lock for a lease from now on. Never shortens a lease.
local function share(entry, leaseMs)
  local time = shareTime()
  redis.call('ZADD', keys.holders, 'GT', time + leaseMs, entry)
  keepLife(time)
  keepShares()
end
