--[[ Acquires one or several locks, each for an owner of its own: those that are free, and those that the owner may
  share with the holders. An owner that has the lock already gets its full lease back. Another one joins the queue, or
  keeps its place in it, if it waits and its instance listens to this server. A lock that is free although others wait
  is handed to them first. Running twice is harmless.
  keys.fence      last token
  keys.lock       `v2-<owner> <token><about>` of an exclusive holder, `v2-!<owner> <token>` of a lock that its owner has
                  closed, `v2-!!<owner> <token>` if its work is done, `v2-*` while sharers have the lock, or the value
                  of another client
  keys.queue      entries by ticket
  keys.holders    entries that share the lock, by the end of their leases in ms
  args.handoffMs  lease of a lock that is handed off
  args.channels   what the channels of the instances begin with
  args.sharded    1: the channels are sharded, as in a cluster, 0: they are not
  args.entry      `v2-<owner>`, followed by ` *` to share the lock, or by ` <n>` for one of n permits
  args.leaseMs
  args.wait       1: join the queue, 0: do not
  args.about      ` <method> <label>` of the caller, percent-encoded, or empty. An owner that shares the lock has none.
                  One that was handed the lock has it from its next request on
  Several locks: fence, all locks, all queues, all holders. The last four arguments are repeated for each.
  returns a reply for one lock, a list of replies for several, or one token that was granted to all
    `<token>`: granted | {queued, remaining ms, holder, sharers, ahead}: held | {-1, permits}: another number of permits
    `remaining` is -1 without an end. `holder` is the value, or the entry of one of `sharers`, or empty if no
    holder blocks the caller: more dead entries stand before it than one run removes. `ahead` is -1 if unknown.
]]
--- @include ../../../redis/scripts/includes/now.lua
--- @include ./includes/next-token.lua
--- @include ./includes/acquire-one.lua
--- @include ./includes/each-lock.lua
--- @include ./includes/replies-of-each.lua
--- @one
if not string.find(args.entry, ' ', 1, true) and redis.call('EXISTS', keys.lock, keys.queue, keys.holders) == 0 then
  local token = nextToken()
  redis.call('SET', keys.lock, args.entry .. ' ' .. token .. args.about, 'PX', args.leaseMs)
  return token
end
return acquireOne()
--- @many
if redis.call('EXISTS', unpack(keys, 2)) == 0 then
  local token, allGranted = nextToken(), true
  for _ in eachLock(1, 3, 3, 4) do
    local isExclusive = not string.find(args.entry, ' ', 1, true)
    -- NX, because a lock may be named twice. An owner that is granted its lock here is found to have it below.
    local value = args.entry .. ' ' .. token .. args.about
    local set = isExclusive and redis.call('SET', keys.lock, value, 'PX', args.leaseMs, 'NX')
    allGranted = allGranted and set
  end
  if allGranted then
    return token
  end
end
return repliesOfEach(eachLock(1, 3, 3, 4), acquireOne)
--- @end
