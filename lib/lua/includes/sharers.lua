--- @include mode
--- @include share-time
--[[ Those who share the lock stand in line before all who wait for it, by the ends of their leases in ms of the key's time,
  taken negative; whoever waits has a ticket, which is positive. So one key tells of both: a cluster that is moving a slot puts off
  what asks for keys that are not there.
  KEYS[3] queue, and before it those who share the lock ]]
local function nobodyShares()
  if redis.call('EXISTS', KEYS[3]) == 0 then
    return true
  end
  local first = redis.pcall('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
  if first.err then
    return redis.call('ZCOUNT', KEYS[3], '-inf', '(0') == 0
  end
  return tonumber(first[2]) > 0
end

--[[ Who shares the lock at this moment: how many, and in which mode. Those whose lease is over do so no more. Who has a `mode`
  tries all commands that this takes; who has none needs them only where somebody shares, and is refused with them, never let in. ]]
local function sharersNow(mode)
  if not mode and nobodyShares() then
    return { count = 0 }
  end
  redis.call('ZREMRANGEBYSCORE', KEYS[3], -shareTime(), '(0')
  local count = redis.call('ZCOUNT', KEYS[3], '-inf', '(0')
  return { count = count, mode = count > 0 and modeOf(redis.call('ZRANGE', KEYS[3], 0, 0)[1]) or nil }
end

--- Whether nobody waits for the lock, be it shared or not.
local function nobodyWaits()
  return redis.call('ZCOUNT', KEYS[3], '(0', '+inf') == 0
end

--- Whether the claim may share the lock with those who do.
local function admits(sharers, claim)
  if sharers.count == 0 then
    return true
  end
  local mode = modeOf(claim)
  return mode == sharers.mode and (mode == '*' or sharers.count < tonumber(mode))
end

--- One more shares the lock, if it has a mode; otherwise nobody else may any more.
local function admitted(sharers, claim)
  sharers.mode = modeOf(claim)
  sharers.count = sharers.count + 1
  sharers.excluded = not sharers.mode
end

--- Whether one of another number of permits is asked for than those who share the lock have.
local function differs(sharers, mode)
  return tonumber(mode) and tonumber(sharers.mode) and mode ~= sharers.mode
end

--- How long those who share the lock may keep a claim of that mode from it. Whoever wants it alone waits for the last of them.
local function msUntilFree(sharers, mode)
  local blocker = mode and sharers.count - 1 or 0
  local ends = -redis.call('ZRANGE', KEYS[3], blocker, blocker, 'WITHSCORES')[2]
  return ends - shareTime()
end
