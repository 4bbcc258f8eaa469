--- @include ./is-unchanged.lua
--[[ Returns whether the owner still holds the lock. The owner acquired it by a script, and its lease is not over.
  Nobody has written the key since, or only a client that lost the race for it. Such a client leaves no TTL and a value
  close to the holder's. A later holder can do so, too, so this counts only as long as there cannot be one.
  `written` is the value that this script writes: ioredis repeats a script whose reply was lost. ]]
local function isOurs(owner, lowest, highest, raceUntil, endsAt, now, written)
  local held = redis.call('GET', keys.lock)
  if now >= endsAt or redis.call('GET', keys.holder) ~= owner then
    return false
  end
  if held == written and isUnchanged() then
    return true
  end
  held = tonumber(held or '')
  if not held or held < tonumber(lowest) or held > tonumber(highest) then
    return false
  end
  return isUnchanged() or (now < raceUntil and redis.call('PTTL', keys.lock) == -1)
end
