--[[ Renews the lease of an entry if it still holds the lock. Never shortens a lease.
  Always writes, even if nothing changes: only then does a WAIT behind it cover this write and all before it.
  Takes one key: a cluster that is moving a slot puts off commands on keys that do not exist.
  keys.lock or keys.queue  the lock of an exclusive entry, or the queue, in which sharers precede the waiters
  args.entry               owner, secret, and mode if it shares the lock
  args.leaseMs
  returns 1: renewed | 0: not held by the entry ]]
--- @include ./includes/extend-entry.lua
return extendEntry(args.entry)
