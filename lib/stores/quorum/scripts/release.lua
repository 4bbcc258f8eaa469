--[[ Releases a node's lock if the ballot has it. A lock that stays closed belongs to nobody. Running twice is harmless.
  keys.lock
  args.ballot
  args.closedForMs  how long the lock stays closed, 0: it is free now
  returns 1: released | 0: not the ballot's ]]
local held = redis.call('GET', keys.lock)
local ours = args.ballot .. ' '
if not held or string.sub(held, 1, #ours) ~= ours then
  return 0
end
if args.closedForMs == '0' then
  return redis.call('DEL', keys.lock)
end
redis.call('SET', keys.lock, '!' .. held, 'PX', args.closedForMs)
return 1
