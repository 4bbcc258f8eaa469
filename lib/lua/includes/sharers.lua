--- @include mode
--[[ Who shares the lock at this moment: how many, and in which mode. Those whose lease is over do so no more. They stand in line
  before all who wait, by the ends of their leases in ms of the server's time, taken negative; whoever waits has a ticket, which is
  positive. So one key tells of both: a cluster that is moving a slot puts off what asks for keys that are not there. Where these
  commands are refused nobody can share anything, and others must not be kept from their locks.
  KEYS[3] queue, and before it those who share the lock ]]
local function sharersAt(now)
  redis.pcall('ZREMRANGEBYSCORE', KEYS[3], '-' .. string.sub(now, 1, -4), '(0')
  local count = redis.pcall('ZCOUNT', KEYS[3], '-inf', '(0')
  if type(count) ~= 'number' or count == 0 then
    return { count = 0 }
  end
  return { count = count, mode = modeOf(redis.call('ZRANGE', KEYS[3], 0, 0)[1]) }
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
