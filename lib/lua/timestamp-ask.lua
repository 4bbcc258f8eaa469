--[[ Take the lock if there is none, or if its value, the time of its expiry by the clients' clocks, is over: then, and only
  then, the old value is replaced. What does not read as such a time is never taken over. A run after the deadline changes
  nothing, so that a delayed ask cannot lock for somebody who has given up; one that was sent twice is answered as before.
  KEYS[1] lock   KEYS[2] holder: who got the lock by a script
  ARGV[1] owner   ARGV[2] now by the asker's clock   ARGV[3] new expiry   ARGV[4] TTL of the keys in ms   ARGV[5] unit of these
  times, s or ms   ARGV[6] deadline in µs of the server's time
  returns {1, now} acquired | {2, now} taken over | {0, now, value} still held | {-1, now} past deadline; now in µs of the
  server's time ]]
--- @include now
if now > ARGV[6] then
  return { -1, now }
end

local held = redis.call('GET', KEYS[1])
if held == ARGV[3] and redis.call('GET', KEYS[2]) == ARGV[1] then
  return { 1, now }
end
if held then
  local expiry = string.match(held, '^%d+%.?%d*$') and tonumber(held)
  -- Seconds, where everybody should write milliseconds, would all look as if they were over since 1970.
  local foreign = ARGV[5] == 'ms' and expiry and expiry >= 1e9 and expiry < 1e10
  if not expiry or foreign or tonumber(ARGV[2]) <= expiry then
    return { 0, now, held }
  end
end
redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[4])
return { held and 2 or 1, now }
