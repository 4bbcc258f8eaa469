--[[ Give the lock a later expiry while the holder's own has not come, and only if the value is still the holder's, or one that
  the loser of a race left there: it lies a little beside the holder's own.
  KEYS[1] lock
  ARGV[1] lowest value that is taken for the holder's   ARGV[2] highest   ARGV[3] new expiry   ARGV[4] TTL of the key in ms
  ARGV[5] when the holder's lease is over, in µs of the server's time
  returns 1 renewed | 0 not the holder's (any more) ]]
--- @include now
local held = tonumber(redis.call('GET', KEYS[1]) or '')
if now < ARGV[5] and held and held >= tonumber(ARGV[1]) and held <= tonumber(ARGV[2]) then
  redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
  return 1
end
return 0
