--[[ Tell who holds a lock of Redisson's; changes nothing.
  KEYS[1] lock: a hash of hold counts by owners
  returns {owner, remaining ms or -1} | nil nobody holds it ]]
local owner = redis.call('HKEYS', KEYS[1])[1]
if not owner then
  return nil
end
return { owner, redis.call('PTTL', KEYS[1]) }
