--[[ Acquires a lock of Redisson for the caller if it is free, and increments its fencing token if it has one.
  If the caller holds the lock already, its full lease is restored, and its hold count and token stay as they are.
  A key of another kind is an error and stays as it is.
  keys.lock      hash of hold counts by owner
  keys.token?    the token granted last
  args.owner
  args.leaseMs
  returns {1, token or 0}: granted | {0, rest of the lease in ms or -1, holder}: held by another owner ]]
--- @include ./includes/read-owner.lua
local owner, wrongKind = readOwner()
if wrongKind then
  return wrongKind
end
if not owner then
  local token = keys.token and redis.call('INCR', keys.token) or 0
  redis.call('HSET', keys.lock, args.owner, 1)
  redis.call('PEXPIRE', keys.lock, args.leaseMs)
  return { 1, token }
end
local remaining = redis.call('PTTL', keys.lock)
if owner ~= args.owner then
  return { 0, remaining, owner }
end
if remaining < tonumber(args.leaseMs) then
  redis.call('PEXPIRE', keys.lock, args.leaseMs)
end
-- Nobody increments the token while the caller holds the lock, but somebody may have deleted it.
return { 1, keys.token and (redis.call('GET', keys.token) or redis.call('INCR', keys.token)) or 0 }
