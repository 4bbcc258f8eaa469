--[[ Returns the holder of a lock of Redisson, and the fencing token granted last if the lock has one. Changes nothing.
  A key of another kind is an error.
  keys.lock    hash of hold counts by owner
  keys.token?  the token granted last
  returns {owner, rest of the lease in ms or -1, token or nil} | nil: the lock is free ]]
--- @include ./includes/read-owner.lua
local owner, wrongKind = readOwner()
if wrongKind then
  return wrongKind
end
return owner and { owner, redis.call('PTTL', keys.lock), keys.token and redis.call('GET', keys.token) }
