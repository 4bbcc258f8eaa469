--[[ Renews the lease of a node's lock if the ballot has it. Never shortens a lease.
  keys.lock
  args.ballot
  args.leaseMs
  returns 1: renewed | 0: held by another owner | -1: free ]]
local held = redis.call('GET', keys.lock)
local ours = args.ballot .. ' '
if not held or string.sub(held, 1, #ours) ~= ours then
  return held and 0 or -1
end
redis.call('PEXPIRE', keys.lock, math.max(args.leaseMs, redis.call('PTTL', keys.lock)))
return 1
