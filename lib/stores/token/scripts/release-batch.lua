--[[ Releases several locks of one slot, each of an entry of its own. Does for each what the release script does. An
  error of one of them concerns it alone. A proxy that allows literal KEYS[n] only refuses this script. The requests
  are then sent one by one.
  keys.fence      last token
  keys.lock       lock and queue follow for each further lock
  keys.queue      entries by ticket, preceded by the sharers
  args.instance   the beginning of each entry
  args.attempts   the next part of each entry, separated by spaces
  args.rest       the end of each entry: secret, and mode if it shares the lock
  args.tokens     how many tokens to reserve for the next holder at most
  args.handoffMs  lease of a lock that is handed off
  args.prefix     prefix of the waiters' channels
  args.sharded?   any value: the channels are sharded, as in a cluster
  returns 1: all were held by their entries and are free | {reply, …}: the reply of the release script for each lock, or
  an error ]]
--- @include ../../../redis/scripts/includes/now.lua
--- @include ./includes/release-unqueued.lua
--- @include ./includes/release-to-queue.lua
--- @include ./includes/each-lock.lua
--- @include ./includes/replies-of-each.lua
local values = redis.pcall('MGET', unpack(keys, 2))
local count = 0
for attempt in string.gmatch(args.attempts, '%S+') do
  local held = values[count * 2 + 1]
  if not held or string.find(held, args.instance .. attempt .. args.rest .. ' ', 1, true) ~= 1 then
    count = -1
    break
  end
  count = count + 1
end
-- A queue would be counted, too.
if redis.pcall('EXISTS', unpack(keys, 2)) == count and type(redis.pcall('DEL', unpack(keys, 2))) == 'number' then
  return 1
end

return repliesOfEach(eachLock, args.attempts, {}, function(entry)
  local released, mine = releaseUnqueued(entry, '0')
  return released or releaseToQueue(entry, mine, '0', now)
end)
