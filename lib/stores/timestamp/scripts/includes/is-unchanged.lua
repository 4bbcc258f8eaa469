--[[ Returns whether nobody has written the lock's key since a script wrote both keys.
  SETNX and GETSET leave a key without a TTL, and an EXPIRE gives it an end of its own. ]]
local function isUnchanged()
  local before = redis.call('PTTL', keys.lock)
  local holder = redis.call('PTTL', keys.holder)
  -- Redis 6.2 reads its clock for each PTTL.
  return holder <= before and holder >= redis.call('PTTL', keys.lock)
end
