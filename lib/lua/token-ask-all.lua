--[[ Take several locks under one hash tag for the asker, all of them or none: each has to be free, or to be shared by it with
  those who hold it, and nobody may wait for it. The asker joins no queue. A run after the deadline changes nothing.
  KEYS[1] lock, one after the other   KEYS[2] fence: the last token given under this hash tag
  KEYS[3] queue of that lock: claims by their tickets, and before it those who share the lock
  ARGV[1] claim: the owner, and how it shares the locks   ARGV[2] lease in ms   ARGV[3] deadline in µs of the server's time
  returns {1, token, now} granted, with one token for all | {-1, 0, now} past deadline | {0, remaining, now, nth} the nth lock is
  held | {-2, permits, now, nth} it has another number of permits; remaining in ms of a lease that is in the way, -1 without an
  end, -2 where others wait; now in µs of the server's time ]]
--- @include now
if now > ARGV[3] then
  return { -1, 0, now }
end

--- @include each-lock
--- @include grant
--- @include sharers
local mode = modeOf(ARGV[1])
local ours = ARGV[1] .. ' '

--- What keeps the asker from the lock that it is the turn of: status and value of the answer; nothing if it may have it.
local function obstacle()
  if redis.call('EXISTS', KEYS[1], KEYS[3]) == 0 then
    return
  end
  local held = redis.call('GET', KEYS[1])
  if held then
    if string.sub(held, 1, #ours) == ours then
      return
    end
    return 0, redis.call('PTTL', KEYS[1])
  end
  local sharers = sharersNow(mode)
  if sharers.count > 0 and tonumber(redis.call('ZSCORE', KEYS[3], ARGV[1]) or 0) < 0 then
    return
  end
  if differs(sharers, mode) then
    return -2, sharers.mode
  end
  if not admits(sharers, ARGV[1]) then
    return 0, msUntilFree(sharers, mode)
  end
  if not nobodyWaits() then
    return 0, -2
  end
end

local count = (#all - 1) / 2
for nth = 1, count do
  turnTo(nth)
  local status, value = obstacle()
  if status then
    return { status, value, now, nth }
  end
end
local token = nextToken('1', now)
for nth = 1, count do
  turnTo(nth)
  -- The asker's own lease, where the ask was made before, never gets shorter.
  lock(ARGV[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])), token)
end
return { 1, token, now }
