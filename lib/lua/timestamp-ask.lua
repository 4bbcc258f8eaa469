--[[ Take the lock if there is none, or if its value, the time of its expiry by the clients' clocks, is over: then, and only
  then, the old value is replaced. What does not read as such a time is never taken over. A run after the deadline changes
  nothing, so that a delayed ask cannot lock for somebody who has given up.
  KEYS[1] lock
  ARGV[1] now by the asker's clock   ARGV[2] new expiry   ARGV[3] TTL of the key in ms   ARGV[4] unit of these times, s or ms
  ARGV[5] deadline in µs of the server's time
  returns {1, now} acquired | {2, now} taken over | {0, now, value} still held | {-1, now} past deadline; now in µs of the
  server's time ]]
--- @include now
if now > ARGV[5] then
  return { -1, now }
end

local held = redis.call('GET', KEYS[1])
if held then
  local expiry = string.match(held, '^%d+%.?%d*$') and tonumber(held)
  -- Seconds, where everybody should write milliseconds, would all look as if they were over since 1970.
  local foreign = ARGV[4] == 'ms' and expiry and expiry >= 1e9 and expiry < 1e10
  if not expiry or foreign or tonumber(ARGV[1]) <= expiry then
    return { 0, now, held }
  end
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return { held and 2 or 1, now }
