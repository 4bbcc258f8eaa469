--[[ Tell who holds the lock; changes nothing.
  KEYS[1] lock
  returns {value, remaining ms or -1} | nil nobody holds it ]]
local held = redis.call('GET', KEYS[1])
if not held then
  return nil
end
return { held, redis.call('PTTL', KEYS[1]) }
