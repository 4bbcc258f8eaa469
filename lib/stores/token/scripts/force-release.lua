--[[ Ends the hold of a lock, or all shares of it, for a caller other than their owner. Hands the lock to the head of
  the queue, or frees it, and notifies the instances of the former owners. Ends only what the caller has read before,
  so that a script that is sent again does not end the hold of the next owner.
  keys.lock
  keys.fence      last token
  keys.queue      entries by ticket, preceded by the sharers
  args.held       value of the lock, or the entries of its sharers, each followed by a comma
  args.shared     1: the lock is shared, 0: it is not
  args.tokens     how many tokens to reserve for the next holder at most
  args.handoffMs  lease of a lock that is handed off
  args.prefix     prefix of the instances' channels
  args.sharded?   any value: the channels are sharded, as in a cluster
  returns {ended, more, entry, …}: how many holds were ended, 1 if the release script has to run to hand off more, and
  an entry of each instance that receives no messages ]]
--- @include ../../../redis/scripts/includes/now.lua
--- @include ./includes/remove-holders.lua
--- @include ./includes/read-sharers.lua
--- @include ./includes/hand-off.lua
--- @include ./includes/handoffs.lua
--- @include ./includes/notify-forced.lua
local ended = removeHolders(args.held, args.shared == '1')
if #ended == 0 then
  return { 0, 0 }
end
local sharers = args.shared == '1' and readSharers('*') or { count = 0 }
handOff(sharers, { prefix = args.prefix, sharded = args.sharded }, args.handoffMs, args.tokens, now)

local reply = { #ended, handoffs.more and 1 or 0 }
local notified = {}
for _, entry in ipairs(ended) do
  local instance = string.match(entry, '^[^:]*')
  -- An instance with several holds asks for all of them.
  if not notified[instance] then
    notified[instance] = true
    if notifyForced(entry) == 0 then
      table.insert(reply, entry)
    end
  end
end
return reply
