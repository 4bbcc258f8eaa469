--[[ Renews the lease of an entry if it still holds the lock. Never shortens a lease.
  Always writes, even if nothing changes: only then does a WAIT behind it cover this write and all before it.
  Takes one key: a cluster that is moving a slot puts off commands on keys that do not exist.
  keys.lock or keys.queue  the lock of an exclusive entry, or the queue, in which sharers precede the waiters
  args.entry               owner, secret, and mode if it shares the lock
  args.leaseMs
  returns 1: renewed | 0: not held by the entry ]]
--- @include ./includes/mode-of.lua
--- @include ./includes/share-time.lua
--- @include ./includes/share.lua
if not modeOf(args.entry) then
  local held = redis.call('GET', keys.lock)
  local ours = args.entry .. ' '
  if not held or string.sub(held, 1, #ours) ~= ours then
    return 0
  end
  redis.call('PEXPIRE', keys.lock, math.max(redis.call('PTTL', keys.lock), tonumber(args.leaseMs)))
  return 1
end
local now = shareTime()
if -(redis.call('ZSCORE', keys.queue, args.entry) or 0) <= now then
  return 0
end
-- Out of memory, Redis refuses ZADD unless the script has written before. This write needs no memory.
redis.call('PEXPIRE', keys.queue, 1e13 - now)
share(args.entry, args.leaseMs)
return 1
