--- @include ./now-ms.lua
--- @include ./keep-shares.lua
--- Shares the lock for a lease from now on. Never shortens a lease.
local function share(entry, leaseMs)
  redis.call('ZADD', keys.holders, 'GT', nowMs + leaseMs, entry)
  keepShares()
end
