--[[ Whether the lock is the holder's still: the holder is the one who got it, its lease is not over, and the value is its own,
  or one that the loser of a race left there: it lies a little beside.
  KEYS[1] lock   KEYS[2] holder: who got the lock by a script ]]
local function isOurs(owner, lowest, highest, overAt, now)
  local held = tonumber(redis.call('GET', KEYS[1]) or '')
  local inTime = now < overAt and redis.call('GET', KEYS[2]) == owner
  return inTime and held and held >= tonumber(lowest) and held <= tonumber(highest)
end
