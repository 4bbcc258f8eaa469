--[[ Returns the holder of a lock of Redisson, and the fencing token granted last if the lock has one. Changes nothing.
  keys.lock    hash of hold counts by owner
  keys.token?  the token granted last
  returns {owner, remaining ms or -1, token or nil} | nil: the lock is free ]]
local owner = redis.call('HKEYS', keys.lock)[1]
if not owner then
  return nil
end
return { owner, redis.call('PTTL', keys.lock), keys.token and redis.call('GET', keys.token) }
