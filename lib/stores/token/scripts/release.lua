--[[ Releases the lock if the entry still holds it, at once or after the rest of its minimum hold: hands it to the head
  of the queue, or frees it. An entry that does not hold the lock leaves the queue. A lock that is free then, or may
  be shared, is handed to the head of the queue, too. Running twice is harmless.
  keys.lock
  keys.fence      last token
  keys.queue      entries by ticket, preceded by the sharers
  args.entry      owner, secret, and mode if it shares the lock
  args.closedForMs     how long the lock stays closed, 0: release it now
  args.tokens     how many tokens to reserve for the next holder at most
  args.handoffMs  lease of a lock that is handed off
  args.prefix     prefix of the waiters' channels
  args.sharded?   any value: the channels are sharded, as in a cluster
  returns 1: released | 0: not held by the entry | 3 or 2: the same, and to hand off more it has to run again ]]
--- @include ../../../redis/scripts/includes/now.lua
--- @include ./includes/release-unqueued.lua
--- @include ./includes/release-to-queue.lua
local released, mine = releaseUnqueued(args.entry, args.closedForMs)
if released then
  return released
end
return releaseToQueue(args.entry, mine, args.closedForMs, now)
