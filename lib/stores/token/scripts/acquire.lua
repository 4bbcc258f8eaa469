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
  returns token: granted, and the only token is also the server time | {1, token, now, tokens, more}: granted, with
  `tokens` tokens | {2, token, now}: the caller held it already | {0, remaining, now, holder, count, more}: held | {3,
  remaining, now, holder, count, more, ahead}: held, and the caller is queued behind `ahead` entries | {-1, 0, now}:
  past the deadline | {-2, permits, now}: the lock has a different number of permits
  `remaining` is the rest of the blocking lease in ms, -1 without an end, -2 if it is not known. `now` is the server
  time in µs. `holder` is the start of the lock's value, or the entry of one of `count` sharers, 0 if the
  lock is not shared. It is empty if nobody holds the lock, and entries of waiters that are gone stand before the
  caller. `more` is 1 if the release script has to run to hand the lock to further sharers or to remove such entries,
  or 0. ]]
--- @include ../../../redis/scripts/includes/now.lua
--- @include ./includes/mode-of.lua
--- @include ./includes/token-after.lua
--- @include ./includes/acquire-or-wait.lua
if now > args.deadline then
  return { -1, 0, now }
end

local isFree = not string.find(args.entry, ' ', 1, true) and redis.call('EXISTS', keys.lock, keys.queue) == 0
local last = isFree and redis.call('SET', keys.fence, now, 'EX', '86400', 'GET')
-- The usual case needs no function, whose definition would take time. Strings of 16 digits compare as numbers do.
if last and args.tokens == '1' and #last == 16 and last < now then
  redis.call('SET', keys.lock, args.entry .. ' ' .. now, 'PX', args.leaseMs)
  return now
end
if isFree then
  -- `grant` does the same.
  local token, reserved = tokenAfter(last, args.tokens, now)
  redis.call('SET', keys.lock, args.entry .. ' ' .. token, 'PX', args.leaseMs)
  return token == now and now or { 1, token, now, reserved }
end
return acquireOrWait(args.entry, modeOf(args.entry), now)
