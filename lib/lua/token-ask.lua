--[[ Take the lock for the asker if it is free and nobody waits for it; if it is the asker's already, give its lease back its
  full length. Otherwise, if it may, the asker joins the queue, or keeps its place in it; and a lock that is free because its
  holder died is handed to whoever is first. A run after the deadline changes nothing, so that a delayed ask cannot lock for
  somebody who has given up.
  KEYS[1] lock   KEYS[2] fence: the last token given under this hash tag   KEYS[3] queue: owners by their tickets
  ARGV[1] owner   ARGV[2] lease in ms   ARGV[3] deadline in µs of the server's time   ARGV[4] number of tokens to set aside
  ARGV[5] whether to wait in the queue, 1 or 0   ARGV[6] lease in ms of a lock that is handed over
  ARGV[7] in a cluster, what the channels of all who wait begin with: it holds the lock's hash tag
  returns token granted, which is the server's time, too | {1, token, now} granted | {2, token, now} the asker's already |
  {0, remaining, now} held | {3, remaining, now} held, and the asker is in the queue | {-1, 0, now} past deadline;
  remaining in ms of the holder's lease or -1, now in µs of the server's time ]]
--- @include now
if now > ARGV[3] then
  return { -1, 0, now }
end

--- @include grant
if redis.call('EXISTS', KEYS[1], KEYS[3]) == 0 then
  local token = grant(ARGV[1], ARGV[2], ARGV[4], now)
  return token == now and now or { 1, token, now }
end

local held = redis.call('GET', KEYS[1])
local ours = ARGV[1] .. ' '
if held and string.sub(held, 1, #ours) == ours then
  redis.pcall('ZREM', KEYS[3], ARGV[1])
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return { 2, string.sub(held, #ours + 1), now }
end

-- Tickets, not times: those repeat, and clocks are set back.
if ARGV[5] == '1' then
  local last = redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2] or 0
  redis.call('ZADD', KEYS[3], 'NX', last + 1, ARGV[1])
  redis.call('PEXPIRE', KEYS[3], 60000)
end

--- @include hand-over
if not held then
  local owner = handOver(ARGV[6], ARGV[4], now, ARGV[1], ARGV[7])
  if not owner or owner == ARGV[1] then
    redis.pcall('ZREM', KEYS[3], ARGV[1])
    return { 1, grant(ARGV[1], ARGV[2], ARGV[4], now), now }
  end
end
return { ARGV[5] == '1' and 3 or 0, redis.call('PTTL', KEYS[1]), now }
