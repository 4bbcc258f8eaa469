--[[ Acquires several locks under one hash tag for the caller, all or none.
  Each must be free, or the caller may share it with its holders, and nobody may wait for it. The caller joins no queue.
  After the deadline nothing changes.
  keys.fence     last token
  keys.lock      lock and queue follow for each further lock
  keys.queue     entries by ticket, preceded by the sharers
  args.entry     owner, secret, and mode if it shares the locks
  args.leaseMs
  args.deadline  µs, server time
  returns {1, token, now}: granted, with one token for all | {-1, 0, now}: past the deadline | {0, remaining, now, nth,
  holder, count}: the nth lock is held | {-2, permits, now, nth}: the nth lock has a different number of permits
  `remaining` is the rest of the blocking lease in ms, -1 without an end, -2 if others wait. `now` is the server time in
  µs. `holder` is the start of the lock's value, or the entry of one of `count` sharers. ]]
--- @include ../../../redis/scripts/includes/now.lua
--- @include ./includes/each-lock.lua
--- @include ./includes/mode-of.lua
--- @include ./includes/read-sharers.lua
--- @include ./includes/permits-differ.lua
--- @include ./includes/may-share.lua
--- @include ./includes/ms-until-free.lua
--- @include ./includes/has-waiters.lua
--- @include ./includes/next-token.lua
--- @include ./includes/lock.lua
if now > args.deadline then
  return { -1, 0, now }
end

local mode = modeOf(args.entry)
local ours = args.entry .. ' '

--- Returns why the caller cannot have the lock of this turn, or nothing: status, value, holder and count of the reply.
local function obstacle()
  if redis.call('EXISTS', keys.lock, keys.queue) == 0 then
    return
  end
  local held = redis.call('GET', keys.lock)
  if held then
    if string.sub(held, 1, #ours) == ours then
      return
    end
    -- The value of another system may be long.
    return 0, redis.call('PTTL', keys.lock), string.sub(held, 1, 400)
  end
  local sharers = readSharers(mode)
  if sharers.count > 0 and tonumber(redis.call('ZSCORE', keys.queue, args.entry) or 0) < 0 then
    return
  end
  if sharers.other then
    return 0, -2, string.sub(sharers.other, 1, 400), 0
  end
  if permitsDiffer(sharers, mode) then
    return -2, sharers.mode
  end
  if not mayShare(sharers, args.entry) then
    local remaining, sharer = msUntilFree(sharers, mode)
    return 0, remaining, sharer, sharers.count
  end
  if hasWaiters() then
    return 0, -2
  end
end

for nth in eachLock do
  local status, value, holder, count = obstacle()
  if status then
    return { status, value, now, nth, holder, count }
  end
end
local token = nextToken('1', now)
for _ in eachLock do
  -- A lease from an earlier run of this request is never shortened.
  lock(args.entry, math.max(redis.call('PTTL', keys.lock), tonumber(args.leaseMs)), token)
end
return { 1, token, now }
