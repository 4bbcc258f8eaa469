--[[ Ends holds for a caller other than their owner, and hands the lock off as a release does. Ends only those that the
  caller has read before, so that a script that is sent again does not end the hold of the next owner.
  keys.fence      last token
  keys.lock       see the acquire script
  keys.queue      entries by ticket
  keys.holders    entries that share the lock, by the end of their leases in ms
  args.handoffMs  lease of a lock that is handed off
  args.channels   what the channels of the instances begin with
  args.sharded    1: the channels are sharded, as in a cluster, 0: they are not
  args.digest     the SHA-1 of the grant in the value of the lock, or empty
  args.entries    the entries that share the lock, each followed by a comma
  returns how many holds were ended
]]
--- @include ./includes/marker.lua
--- @include ./includes/grant-of.lua
--- @include ./includes/read-holders.lua
--- @include ./includes/remove-share.lua
--- @include ./includes/keep-shares.lua
--- @include ./includes/hand-off.lua
--- @include ./includes/wake.lua
local ended = {}
local value = redis.call('GET', keys.lock)
if value and value ~= marker then
  if redis.sha1hex(grantOf(value)) == args.digest then
    redis.call('DEL', keys.lock)
    table.insert(ended, string.match(value, '^[^ ]*'))
    value = nil
  end
end
for entry in string.gmatch(args.entries, '[^,]+') do
  if removeShare(entry) then
    table.insert(ended, entry)
  end
end
if #ended > 0 then
  if not value or value == marker then
    keepShares()
  end
  handOff(readHolders())
  -- The former holder renews at once, and learns that it has lost the lock.
  for _, entry in ipairs(ended) do
    wake(entry)
  end
end
return #ended
