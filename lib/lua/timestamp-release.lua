--[[ End the lock while the holder's lease is not over, and only if the value is still the holder's, or one that the loser of a
  race left there: it lies a little beside the holder's own. Afterwards the key may be another's, and is left alone.
  KEYS[1] lock
  ARGV[1] lowest value that is taken for the holder's   ARGV[2] highest   ARGV[3] when the holder's lease is over, in µs of
  the server's time
  returns 1 ended | 0 not the holder's (any more) ]]
--- @include now
local held = tonumber(redis.call('GET', KEYS[1]) or '')
if now < ARGV[3] and held and held >= tonumber(ARGV[1]) and held <= tonumber(ARGV[2]) then
  return redis.call('DEL', KEYS[1])
end
return 0
