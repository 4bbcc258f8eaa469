--[[ Renews the leases of several entries, each of another lock. Does for each what the extend script does. An error of
  one of them concerns it alone.
  keys.lock or keys.queue  the lock of an exclusive entry, or the queue. That of each further entry follows
  args.instance            the beginning of each entry
  args.attempts            the next part of each entry, separated by spaces
  args.rest                the end of each entry: secret, and mode if it shares the lock
  args.leaseMs
  returns {reply, …}: for each entry, 1: renewed | 0: not held by the entry | an error ]]
--- @include ./includes/extend-entry.lua
--- @include ./includes/each-key.lua
--- @include ./includes/replies-of-each.lua
return repliesOfEach(eachKey, args.attempts, {}, extendEntry)
