--[[ Renews the lease of a lock of Redisson if the owner still holds it alone. Never shortens a lease.
  keys.lock  hash of hold counts by owner
  args.owner
  args.leaseMs
  returns 1: renewed | 0: not held by the owner alone ]]
--- @include ./includes/read-owner.lua
if readOwner() ~= args.owner then
  return 0
end
if redis.call('PTTL', keys.lock) < tonumber(args.leaseMs) then
  redis.call('PEXPIRE', keys.lock, args.leaseMs)
end
return 1
