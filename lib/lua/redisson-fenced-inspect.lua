--[[ Tell who holds a fenced lock of Redisson's, and the last token that was given; changes nothing.
  KEYS[1] lock: a hash of hold counts by owners   KEYS[2] token: the last one given
  returns {owner, remaining ms or -1, token or nil} | nil nobody holds it ]]
local owner = redis.call('HKEYS', KEYS[1])[1]
if not owner then
  return nil
end
return { owner, redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]) }
