--[[ Releases a node's lock if the owner still holds it, at once or after the rest of its minimum hold. Running twice is
  harmless.
  keys.lock
  args.owner   the owner, or the owner and the only round that is meant
  args.closedForMs  how long the lock stays closed, 0: release it now
  returns 1: released | 0: not held by the owner ]]
local held = redis.call('GET', keys.lock)
local ours = args.owner .. ' '
if not held or string.sub(held, 1, #ours) ~= ours then
  return 0
end
if args.closedForMs ~= '0' then
  redis.call('PEXPIRE', keys.lock, args.closedForMs)
else
  redis.call('DEL', keys.lock)
end
return 1
