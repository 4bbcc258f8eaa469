--[[ Returns the value of a lock, the rest of its lease and its digest. Changes nothing.
  keys.lock
  returns {value, remaining ms or -1, SHA-1 of its grant} | nil: nobody has the lock, or others share it ]]
--- @include ./includes/marker.lua
--- @include ./includes/grant-of.lua
local value = redis.call('GET', keys.lock)
if not value or value == marker then
  return nil
end
return { value, redis.call('PTTL', keys.lock), redis.sha1hex(grantOf(value)) }
