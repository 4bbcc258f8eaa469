--[[ Take the lock for the asker if nobody waits for it, and it is free or may be shared by it with those who hold it; if it is
  the asker's already, give its lease back its full length. Otherwise, if it may, the asker joins the queue, or keeps its place
  in it; and a lock that is free because its holder died is handed to whoever is first. A run after the deadline changes
  nothing, so that a delayed ask cannot lock for somebody who has given up.
  KEYS[1] lock   KEYS[2] fence: the last token given under this hash tag
  KEYS[3] queue: claims by their tickets, and before it those who share the lock
  ARGV[1] claim: the owner, and how it shares the lock   ARGV[2] lease in ms   ARGV[3] deadline in µs of the server's time
  ARGV[4] number of tokens to set aside   ARGV[5] whether to wait in the queue, 1 or 0
  ARGV[6] lease in ms of a lock that is handed over
  ARGV[7] in a cluster, what the channels of all who wait begin with: it holds the lock's hash tag
  returns token granted, which is the server's time, too | {1, token, now} granted | {2, token, now} the asker's already |
  {0, remaining, now} held | {3, remaining, now} held, and the asker is in the queue | {-1, 0, now} past deadline |
  {-2, permits, now} the lock has another number of permits; remaining in ms of a lease that is in the way or -1, now in µs
  of the server's time ]]
--- @include now
if now > ARGV[3] then
  return { -1, 0, now }
end

--- @include grant
local mode = modeOf(ARGV[1])
if not mode and redis.call('EXISTS', KEYS[1], KEYS[3]) == 0 then
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

--- @include sharers
local sharers = held and { excluded = true } or sharersNow(mode)
if mode and not held then
  if tonumber(redis.call('ZSCORE', KEYS[3], ARGV[1]) or 0) < 0 then
    return { 2, grant(ARGV[1], ARGV[2], '1', now), now }
  end
  if differs(sharers, mode) then
    return { -2, sharers.mode, now }
  end
  -- It need not stand in the queue first.
  if nobodyWaits() and admits(sharers, ARGV[1]) then
    return { 1, grant(ARGV[1], ARGV[2], '1', now), now }
  end
end

-- Tickets, not times: those repeat, and clocks are set back.
if ARGV[5] == '1' then
  local last = redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2] or 0
  redis.call('ZADD', KEYS[3], 'NX', math.max(last, 0) + 1, ARGV[1])
  if (sharers.count or 0) > 0 then
    outlast(60000)
  else
    redis.call('PEXPIRE', KEYS[3], 60000)
  end
end

--- @include hand-over
if handOver(sharers, ARGV[6], ARGV[4], now, ARGV[1], ARGV[7]) and admits(sharers, ARGV[1]) then
  redis.pcall('ZREM', KEYS[3], ARGV[1])
  local token = grant(ARGV[1], ARGV[2], ARGV[4], now)
  admitted(sharers, ARGV[1])
  handOver(sharers, ARGV[6], ARGV[4], now, nil, ARGV[7])
  return { 1, token, now }
end

local status = ARGV[5] == '1' and 3 or 0
if sharers.excluded then
  return { status, redis.call('PTTL', KEYS[1]), now }
end
return { status, msUntilFree(sharers, mode), now }
