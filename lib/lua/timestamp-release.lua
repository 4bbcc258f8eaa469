--[[ End the lock if it is the holder's still. Otherwise the key may be another's, and is left alone; also by a release that was
  sent twice, because nobody heard the answer to the first.
  KEYS[1] lock   KEYS[2] holder: who got the lock by a script
  ARGV[1] owner   ARGV[2] lowest value that is taken for the holder's   ARGV[3] highest   ARGV[4] when the holder's lease is
  over, in µs of the server's time
  returns 1 ended | 0 not the holder's (any more) ]]
--- @include now
--- @include timestamp-ours
if isOurs(ARGV[1], ARGV[2], ARGV[3], ARGV[4], now) then
  redis.call('DEL', KEYS[1], KEYS[2])
  return 1
end
return 0
