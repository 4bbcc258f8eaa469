--[[ Releases one or several locks, each of an owner of its own, or removes these owners from the queues. A lock that is
  free then, or that others may share, is handed to the first in its queue. Running twice is harmless.
  keys.fence        last token
  keys.lock         see the acquire script
  keys.queue        entries by ticket
  keys.holders      entries that share the lock, by the end of their leases in ms
  args.handoffMs    lease of a lock that is handed off
  args.channels     what the channels of the instances begin with
  args.sharded      1: the channels are sharded, as in a cluster, 0: they are not
  args.entry        `v2-<owner>`, followed by ` *` or ` <n>` if it shares the lock
  args.closedForMs  how long the lock stays closed, 0: release it now. Behind a `-`, only for an exclusive lock: the
                    lock is closed because its work is done
  Several locks: fence, all locks, all queues, all holders. The last two arguments are repeated for each.
  returns 1: the owner held the lock | 0: it did not. Several: a list of these, or 1 for all
]]
--- @include ./includes/is-of.lua
--- @include ./includes/release-one.lua
--- @include ./includes/lock-count.lua
--- @include ./includes/each-lock.lua
--- @include ./includes/replies-of-each.lua
--- @one
if args.closedForMs == '0' then
  local value = redis.call('GET', keys.lock)
  if value and isOf(value, args.entry) and redis.call('EXISTS', keys.queue) == 0 then
    redis.call('DEL', keys.lock)
    return 1
  end
end
return releaseOne()
--- @many
local values = redis.pcall('MGET', unpack(keys, 2, lockCount + 1))
local areOurs = true
for nth in eachLock(1, 3, 3, 2) do
  areOurs = areOurs and args.closedForMs == '0' and values[nth] and isOf(values[nth], args.entry)
end
-- A queue would be counted, too. A lock that is named twice cannot belong to two owners.
if areOurs and redis.call('EXISTS', unpack(keys, 2)) == lockCount then
  redis.call('DEL', unpack(keys, 2, lockCount + 1))
  return 1
end
return repliesOfEach(eachLock(1, 3, 3, 2), releaseOne)
--- @end
