--[[ Releases the lock if the entry still holds it, at once or after the rest of its minimum hold: hands it to the head
  of the queue, or frees it. An entry that does not hold the lock leaves the queue. A lock that is free by then, or may
  be shared, is handed to the head of the queue, too. Running twice is harmless.
  keys.lock
  keys.fence      last token
  keys.queue      entries by ticket, preceded by the sharers
  args.entry      owner, secret, and mode if it shares the lock
  args.keepMs     how long the lock stays closed, 0: release it now
  args.tokens     how many tokens to reserve for the next holder at most
  args.handoffMs  lease of a lock that is handed off
  args.prefix     prefix of the waiters' channels
  args.sharded?   any value: the channels are sharded, as in a cluster
  returns 1: released | 0: not held by the entry ]]
--- @include ../../../redis/scripts/includes/now.lua
--- @include ./includes/mode-of.lua
--- @include ./includes/read-sharers.lua
--- @include ./includes/share.lua
--- @include ./includes/hand-off.lua
local held = redis.call('GET', keys.lock)
local ours = args.entry .. ' '
local mine = held and string.sub(held, 1, #ours) == ours
if mine and args.keepMs ~= '0' then
  redis.call('PEXPIRE', keys.lock, args.keepMs)
  return 1
end
if mine and redis.call('EXISTS', keys.queue) == 0 then
  redis.call('DEL', keys.lock)
  return 1
end
if held and not mine then
  redis.pcall('ZREM', keys.queue, args.entry)
  return 0
end

local sharers, released = { count = 0 }, 1
if not mine then
  local mode = modeOf(args.entry)
  sharers = readSharers(mode)
  local shares = mode and tonumber(redis.call('ZSCORE', keys.queue, args.entry) or 0) < 0
  redis.pcall('ZREM', keys.queue, args.entry)
  if shares and args.keepMs ~= '0' then
    share(args.entry, args.keepMs)
    return 1
  end
  sharers.count = sharers.count - (shares and 1 or 0)
  released = shares and 1 or 0
end
handOff(sharers, { prefix = args.prefix, sharded = args.sharded }, args.handoffMs, args.tokens, now)
-- An exclusive successor has overwritten the lock, and excludes all others.
if mine and not sharers.excluded then
  redis.call('DEL', keys.lock)
end
return released
