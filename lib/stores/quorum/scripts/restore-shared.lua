--[[ Restores a share of a lock on a node that has lost it while a majority still has it. Never adds it to an exclusive
  lock. After the deadline nothing changes.
  keys.lock       all sharers
  keys.fence
  args.sharer     owner, round and token
  args.lastToken  last token granted by other nodes
  args.leaseMs
  args.deadline   µs, server time
  returns 1: restored | 0: held exclusively, shared by the owner already, or past the deadline ]]
--- @include ../../../redis/scripts/includes/now.lua
--- @include ./includes/raise-fence.lua
--- @include ./includes/is-shared.lua
--- @include ./includes/remove-sharer.lua
--- @include ./includes/share.lua
if tonumber(now) > tonumber(args.deadline) then
  return 0
end
raiseFence(args.lastToken)
local held = redis.call('GET', keys.lock) or '*;'
if not isShared(held) then
  return 0
end
local nowMs = tonumber(string.sub(now, 1, -4))
local others, mine, ends = removeSharer(held, string.match(args.sharer, '^%S+ '))
if mine and ends > nowMs then
  return 0
end
share(others, args.sharer, nowMs + args.leaseMs, nowMs)
return 1
