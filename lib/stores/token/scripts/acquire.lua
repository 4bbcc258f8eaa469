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
  time in µs. `holder` is the start of the lock's value, or the entry of a sharer, of which there are `count`, 0 if the
  lock is not shared. It is empty if nobody holds the lock, and entries of waiters that are gone stand before the
  caller. `more` is 1 if the release script has to run to hand the lock to further sharers or to remove such entries,
  or 0. ]]
--- @include ../../../redis/scripts/includes/now.lua
--- @include ./includes/mode-of.lua
--- @include ./includes/next-token.lua
--- @include ./includes/acquire-or-wait.lua
if now > args.deadline then
  return { -1, 0, now }
end

local mode = modeOf(args.entry)
if not mode and redis.call('EXISTS', keys.lock, keys.queue) == 0 then
  -- `grant` does the same. Its definition and those it needs would take 15 % of the time of this script.
  local token, reserved = nextToken(args.tokens, now)
  redis.call('SET', keys.lock, args.entry .. ' ' .. token, 'PX', args.leaseMs)
  return token == now and now or { 1, token, now, reserved }
end
return acquireOrWait(args.entry, mode, now)
