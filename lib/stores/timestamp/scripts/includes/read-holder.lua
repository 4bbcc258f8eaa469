--- @include ./now-ms.lua
--[[ Returns what the last script has written about its owner. Nil if the owner does not hold the lock any longer: its
  lease is over, or another client has written the key since. SETNX and GETSET leave a key without a TTL, and an EXPIRE
  gives it an end of its own.
  A client that lost the race for the lock leaves no TTL and a value close to the holder's. A later holder can do so,
  too, so this counts only as long as there cannot be one. ]]
local function readHolder()
  local pattern = '^(%S+) (%d+) (%d+) ((%d+) (%d+) (%d+))$'
  local text = redis.call('GET', keys.holder) or ''
  local owner, value, valueAt, race, lowest, tolerance, raceUntil = string.match(text, pattern)
  if not owner or nowMs >= tonumber(valueAt) then
    return nil
  end
  local held = redis.call('GET', keys.lock)
  local before = redis.call('PTTL', keys.lock)
  local rest = redis.call('PTTL', keys.holder)
  -- Redis 6.2 reads its clock for each PTTL.
  if held ~= value or rest > before or rest < redis.call('PTTL', keys.lock) then
    held = tonumber(held or '')
    local isClose = held and held >= tonumber(lowest) and held <= value + tolerance
    if before ~= -1 or not isClose or nowMs >= tonumber(raceUntil) then
      return nil
    end
  end
  return { owner = owner, value = tonumber(value), valueAt = tonumber(valueAt), race = race, rest = rest }
end
