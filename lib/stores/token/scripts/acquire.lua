--[[ Acquires the lock for the caller if it is free and nobody waits, or if the caller may share it with its holders. If
  the caller holds the lock already, its full lease is restored. Otherwise the caller joins the queue, or keeps its
  place in it, if `willWait` is 1. A lock that is free because its holder died is handed to the head of the queue. After
  the deadline nothing changes: a delayed request must not lock for a caller that has given up.
  keys.lock
  keys.fence      last token
  keys.queue      entries by ticket, preceded by the sharers
  args.entry      owner, secret, and mode if it shares the lock
  args.leaseMs
  args.deadline   µs, server time
  args.tokens     how many tokens to reserve at most
  args.willWait   1: join the queue, 0: do not
  args.handoffMs  lease of a lock that is handed off
  args.prefix     prefix of the waiters' channels
  args.sharded?   any value: the channels are sharded, as in a cluster
  returns token: granted, and the only token is also the server time | {1, token, now, tokens}: granted, with `tokens`
  tokens | {2, token, now}: the caller held it already | {0, remaining, now, holder, count}: held | {3, remaining, now,
  holder, count}: held, and the caller is queued | {-1, 0, now}: past the deadline | {-2, permits, now}: the lock has a
  different number of permits
  `remaining` is the rest of the blocking lease in ms, or -1. `now` is the server time in µs. `holder` is the start of
  the lock's value, or the entry of a sharer, of which there are `count`. ]]
--- @include ../../../redis/scripts/includes/now.lua
--- @include ./includes/mode-of.lua
--- @include ./includes/grant.lua
--- @include ./includes/read-sharers.lua
--- @include ./includes/permits-differ.lua
--- @include ./includes/has-waiters.lua
--- @include ./includes/may-share.lua
--- @include ./includes/keep-queue.lua
--- @include ./includes/hand-off.lua
--- @include ./includes/add-holder.lua
--- @include ./includes/ms-until-free.lua
if now > args.deadline then
  return { -1, 0, now }
end

local mode = modeOf(args.entry)
if not mode and redis.call('EXISTS', keys.lock, keys.queue) == 0 then
  local token, reserved = grant(args.entry, args.leaseMs, args.tokens, now)
  return token == now and now or { 1, token, now, reserved }
end

local held = redis.call('GET', keys.lock)
local ours = args.entry .. ' '
if held and string.sub(held, 1, #ours) == ours then
  redis.pcall('ZREM', keys.queue, args.entry)
  if redis.call('PTTL', keys.lock) < tonumber(args.leaseMs) then
    redis.call('PEXPIRE', keys.lock, args.leaseMs)
  end
  return { 2, string.sub(held, #ours + 1), now }
end

local sharers = held and { excluded = true } or readSharers(mode)
if mode and not held then
  if tonumber(redis.call('ZSCORE', keys.queue, args.entry) or 0) < 0 then
    return { 2, (grant(args.entry, args.leaseMs, '1', now)), now }
  end
  if permitsDiffer(sharers, mode) then
    return { -2, sharers.mode, now }
  end
  -- Without waiters, the entry does not join the queue first.
  if not hasWaiters() and mayShare(sharers, args.entry) then
    return { 1, (grant(args.entry, args.leaseMs, '1', now)), now, 1 }
  end
end

-- Tickets, not times: times repeat, and clocks are set back.
if args.willWait == '1' then
  local last = redis.call('ZRANGE', keys.queue, -1, -1, 'WITHSCORES')[2] or 0
  redis.call('ZADD', keys.queue, 'NX', math.max(last, 0) + 1, args.entry)
  if (sharers.count or 0) > 0 then
    keepQueue(60000)
  else
    redis.call('PEXPIRE', keys.queue, 60000)
  end
end

local channels = { prefix = args.prefix, sharded = args.sharded }
if handOff(sharers, channels, args.handoffMs, args.tokens, now, args.entry) and mayShare(sharers, args.entry) then
  redis.pcall('ZREM', keys.queue, args.entry)
  local token, reserved = grant(args.entry, args.leaseMs, args.tokens, now)
  addHolder(sharers, args.entry)
  handOff(sharers, channels, args.handoffMs, args.tokens, now)
  return { 1, token, now, reserved }
end

local status = args.willWait == '1' and 3 or 0
if sharers.excluded then
  -- The value of another system may be long.
  return { status, redis.call('PTTL', keys.lock), now, string.sub(held or redis.call('GET', keys.lock) or '', 1, 400) }
end
local remaining, sharer = msUntilFree(sharers, mode)
return { status, remaining, now, sharer, sharers.count }
