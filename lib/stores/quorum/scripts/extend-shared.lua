--[[ Renews the lease of one sharer of a node's lock if it is not over. Never shortens a lease.
  Returns what is needed to restore the share on nodes that have lost it.
  keys.lock   all sharers
  keys.fence
  args.owner
  args.leaseMs
  returns {owner, round and token, last token granted or 0}: renewed | 0: held exclusively | -1: the lease is over ]]
--- @include ../../../redis/scripts/includes/now.lua
--- @include ./includes/is-shared.lua
--- @include ./includes/remove-sharer.lua
--- @include ./includes/share.lua
local held = redis.call('GET', keys.lock) or '*;'
if not isShared(held) then
  return 0
end

local nowMs = tonumber(string.sub(now, 1, -4))
local others, mine, ends = removeSharer(held, args.owner .. ' ')
if not mine or ends <= nowMs then
  return -1
end
-- Out of memory, Redis refuses SET unless the script has written before. This write needs no memory.
redis.call('PEXPIRE', keys.lock, redis.call('PTTL', keys.lock))
share(others, mine, math.max(ends, nowMs + args.leaseMs), nowMs)
return { mine, redis.call('GET', keys.fence) or '0' }
