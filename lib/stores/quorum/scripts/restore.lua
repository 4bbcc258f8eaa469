--[[ Restores a lock on a node that has lost it while a majority still has it. Never replaces another owner's lock.
  After the deadline nothing changes: a delayed run must not lock for an owner that has released.
  keys.lock
  keys.fence
  args.value      value of the lock
  args.lastToken  last token granted by other nodes
  args.leaseMs
  args.deadline   µs, server time
  returns 1: restored | 0: the lock is held, or past the deadline ]]
--- @include ../../../redis/scripts/includes/now.lua
--- @include ./includes/raise-fence.lua
if tonumber(now) > tonumber(args.deadline) then
  return 0
end
raiseFence(args.lastToken)
return redis.call('SET', keys.lock, args.value, 'NX', 'PX', args.leaseMs) and 1 or 0
