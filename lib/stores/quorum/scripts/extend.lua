--[[ Renews the lease of a node's lock if the owner still holds it. Never shortens a lease.
  Returns what is needed to restore the lock on nodes that have lost it.
  keys.lock
  keys.fence
  args.owner
  args.leaseMs
  returns {value, last token granted or 0}: renewed | 0: held by another owner | -1: free ]]
local held = redis.call('GET', keys.lock)
if not held then
  return -1
end
local ours = args.owner .. ' '
if string.sub(held, 1, #ours) ~= ours then
  return 0
end
if redis.call('PTTL', keys.lock) < tonumber(args.leaseMs) then
  redis.call('PEXPIRE', keys.lock, args.leaseMs)
end
return { held, redis.call('GET', keys.fence) or '0' }
