--[[ Returns one node's vote for a caller that shares the lock: adds it if nobody holds the lock exclusively. If the
  caller shares it from an earlier round, it is moved to this round, and its full lease is restored. Rounds and deadline
  count as in acquire.lua. A token is as there, and also the only one of `nodes` consecutive tokens that this node may
  grant. Two nodes therefore never grant one token to two sharers.
  keys.lock      all sharers
  keys.fence     last token of the slot
  args.owner
  args.round
  args.leaseMs
  args.deadline  µs, server time
  args.nodes     number of nodes
  args.proposed  proposed token: modulo the number of nodes, it is this node's place among them
  returns {1, token, now}: granted | {2, token, now}: the caller shared it already | {0, remaining, now, holder}: held
  exclusively | {-1, 0, now}: past the deadline, or a later round was here
  `remaining` is the rest of the holder's lease in ms, or -1. `now` is the server time in µs. ]]
--- @include ../../../redis/scripts/includes/now.lua
--- @include ./includes/is-shared.lua
--- @include ./includes/remove-sharer.lua
--- @include ./includes/share.lua
--- @include ./includes/reserve-tokens.lua
if tonumber(now) > tonumber(args.deadline) then
  return { -1, 0, now }
end

local held = redis.call('GET', keys.lock) or '*;'
if not isShared(held) then
  return { 0, redis.call('PTTL', keys.lock), now, held }
end

local nowMs = tonumber(string.sub(now, 1, -4))
local ours, ends = args.owner .. ' ', nowMs + args.leaseMs
local others, mine, before = removeSharer(held, ours)
if mine and before > nowMs then
  local round, token = string.match(mine, '^(%d+) (%d+)$', #ours + 1)
  if tonumber(round) > tonumber(args.round) then
    return { -1, 0, now }
  end
  share(others, ours .. args.round .. ' ' .. token, math.max(before, ends), nowMs)
  return { 2, token, now }
end

local place = args.proposed % args.nodes
local token = string.format('%.0f', reserveTokens(args.nodes, args.proposed - place, now, args.nodes) + place)
share(others, ours .. args.round .. ' ' .. token, ends, nowMs)
return { 1, token, now }
