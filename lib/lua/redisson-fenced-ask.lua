--[[ Take a fenced lock of Redisson's for the asker if it is free, and count its fencing token on; if it is the asker's already, give its
  lease back its full length and leave count and token alone. A run after the deadline changes nothing, so that a delayed ask
  cannot lock for somebody who has given up.
  KEYS[1] lock: a hash of hold counts by owners   KEYS[2] token: the last one given
  ARGV[1] owner   ARGV[2] lease in ms   ARGV[3] deadline in µs of the server's time
  returns {1, token, now} granted | {0, remaining, now} held | {-1, 0, now} past deadline; remaining in ms of the holder's lease
  or -1, now in µs of the server's time ]]
--- @include now
if now > ARGV[3] then
  return { -1, 0, now }
end

if redis.call('EXISTS', KEYS[1]) == 0 then
  local token = redis.call('INCR', KEYS[2])
  redis.call('HSET', KEYS[1], ARGV[1], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return { 1, token, now }
end

local remaining = redis.call('PTTL', KEYS[1])
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return { 0, remaining, now }
end
if remaining < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
-- Nobody else has counted it on while the asker held the lock; somebody may have deleted it.
return { 1, redis.call('GET', KEYS[2]) or redis.call('INCR', KEYS[2]), now }
