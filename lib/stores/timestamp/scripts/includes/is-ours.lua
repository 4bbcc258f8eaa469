--[[ Returns whether the owner still holds the lock.
  The owner acquired it by a script, its lease is not over, and the value is its own or close to it.
  A client that lost a race for the lock leaves a value close to the holder's. ]]
local function isOurs(owner, lowest, highest, endsAt, now)
  local held = tonumber(redis.call('GET', keys.lock) or '')
  local current = now < endsAt and redis.call('GET', keys.holder) == owner
  return current and held and held >= tonumber(lowest) and held <= tonumber(highest)
end
