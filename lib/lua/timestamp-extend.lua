--[[ Give the lock another expiry if it is the holder's still.
  KEYS[1] lock   KEYS[2] holder: who got the lock by a script
  ARGV[1] owner   ARGV[2] lowest value that is taken for the holder's   ARGV[3] highest   ARGV[4] when the holder's lease is
  over, in µs of the server's time   ARGV[5] new expiry   ARGV[6] TTL of the keys in ms
  returns 1 renewed | 0 not the holder's (any more) ]]
--- @include now
--- @include timestamp-ours
if isOurs(ARGV[1], ARGV[2], ARGV[3], ARGV[4], now) then
  redis.call('SET', KEYS[1], ARGV[5], 'PX', ARGV[6])
  redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[6])
  return 1
end
return 0
