--[[ Renews the leases of one or several owners that still hold their locks. Never shortens a lease.
  keys.lock      see the acquire script
  keys.holders?  entries that share the lock. Only needed for such an owner: a cluster that moves a slot refuses several
                 keys if some of them do not exist
  args.entry     `v2-<owner>`, followed by ` *` or ` <n>` if it shares the lock
  args.leaseMs
  Several locks: all locks, all holders. Both arguments are repeated for each.
  returns 1: renewed | 0: not held by the owner. Several: a list of these
]]
--- @include ./includes/extend-one.lua
--- @include ./includes/each-lock.lua
--- @include ./includes/replies-of-each.lua
--- @one
return extendOne()
--- @many
return repliesOfEach(eachLock(0, 2, 0, 2), extendOne)
--- @end
