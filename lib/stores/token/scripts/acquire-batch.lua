--[[ Acquires several locks of one slot, each for an entry of its own. Does for each what the acquire script does. An
  error of one of them concerns it alone. Locks that are free get the same token: tokens order the holders of one lock.
  If all are free, one command finds that out. A proxy that allows literal KEYS[n] only refuses this script. The
  requests are then sent one by one.
  keys.fence       last token
  keys.lock        lock and queue follow for each further lock
  keys.queue       entries by ticket, preceded by the sharers
  args.instance    the beginning of each entry
  args.attempts    the next part of each entry, separated by spaces
  args.rest        the end of each entry: secret, and mode if it shares the lock
  args.leaseMs
  args.deadline    µs, server time
  args.tokens      how many tokens to reserve at most, for each
  args.willWait    1: join the queue, 0: do not
  args.handoffMs   lease of a lock that is handed off
  args.prefix      prefix of the waiters' channels
  args.sharded?    any value: the channels are sharded, as in a cluster
  returns {now}: past the deadline | {now, token, tokens}: all locks were free and are granted with `token` | {now,
  token, tokens, reply, …}: a reply for each lock, 1 if it was free and is granted with `token`, otherwise the reply of
  the acquire script or an error ]]
--- @include ../../../redis/scripts/includes/now.lua
--- @include ./includes/mode-of.lua
--- @include ./includes/next-token.lua
--- @include ./includes/acquire-or-wait.lua
--- @include ./includes/each-lock.lua
--- @include ./includes/replies-of-each.lua
if now > args.deadline then
  return { now }
end

local mode = modeOf(args.rest)
if not mode and redis.pcall('EXISTS', unpack(keys, 2)) == 0 then
  local token, reserved = nextToken(args.tokens, now)
  local nextAttempt = string.gmatch(args.attempts, '%S+')
  local allGranted = true
  for _ in eachLock do
    local entry = args.instance .. nextAttempt() .. args.rest
    local set = redis.pcall('SET', keys.lock, entry .. ' ' .. token, 'NX', 'PX', args.leaseMs)
    allGranted = allGranted and set and set.ok
  end
  if allGranted then
    return { now, token, reserved }
  end
  -- A lock was named twice or could not be written. Those that were granted are found to be granted below.
end

local replies = { now, '0', 1 }
return repliesOfEach(eachLock, args.attempts, replies, function(entry)
  if mode or redis.call('EXISTS', keys.lock, keys.queue) > 0 then
    return acquireOrWait(entry, mode, now)
  end
  if replies[2] == '0' then
    replies[2], replies[3] = nextToken(args.tokens, now)
  end
  redis.call('SET', keys.lock, entry .. ' ' .. replies[2], 'PX', args.leaseMs)
  return 1
end)
