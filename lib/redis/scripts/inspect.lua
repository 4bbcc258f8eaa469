--[[ Returns the value of a lock and the rest of its lease. Changes nothing.
  keys.lock
  returns {value, remaining ms or -1} | nil: the lock is free ]]
local held = redis.call('GET', keys.lock)
if not held then
  return nil
end
return { held, redis.call('PTTL', keys.lock) }
