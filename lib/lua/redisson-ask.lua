--[[ Take a lock of Redisson's for the asker if it is free; if it is the asker's already, give its lease back its full length and
  leave its count alone. A run after the deadline changes nothing, so that a delayed ask cannot lock for somebody who has given up.
  KEYS[1] lock: a hash of hold counts by owners
  ARGV[1] owner   ARGV[2] lease in ms   ARGV[3] deadline in µs of the server's time
  returns {1, 0, now} granted | {0, remaining, now} held | {-1, 0, now} past deadline; remaining in ms of the holder's lease or -1,
  now in µs of the server's time ]]
--- @include now
if now > ARGV[3] then
  return { -1, 0, now }
end

if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], ARGV[1], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return { 1, 0, now }
end

local remaining = redis.call('PTTL', KEYS[1])
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return { 0, remaining, now }
end
if remaining < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return { 1, 0, now }
