--[[ Returns one node's vote: acquires the node's lock for the caller if it is free. If the caller holds it from an
  earlier round, it is moved to this round, and its full lease is restored. Of two rounds of one owner the later one
  counts, however late the earlier one arrives. After the deadline nothing changes. A token is higher than all tokens of
  this node, and not lower than its clock and the caller's proposal. Nodes whose clocks differ can therefore agree at
  once.
  keys.lock      owner, round and token
  keys.fence     last token of the slot
  args.owner
  args.round
  args.leaseMs
  args.deadline  µs, server time
  args.tokens    number of tokens to reserve
  args.proposed  proposed token
  returns {1, token, now}: granted | {2, token, now}: the caller held it already | {0, remaining, now, holder}: held by
  another owner | {-1, 0, now}: past the deadline, or a later round was here
  `remaining` is the rest of the holder's lease in ms, or -1. `now` is the server time in µs. ]]
--- @include ../../../redis/scripts/includes/now.lua
--- @include ./includes/reserve-tokens.lua
if tonumber(now) > tonumber(args.deadline) then
  return { -1, 0, now }
end

local held = redis.call('GET', keys.lock)
local ours = args.owner .. ' '
if held and string.sub(held, 1, #ours) ~= ours then
  return { 0, redis.call('PTTL', keys.lock), now, held }
end

if held then
  local round, token = string.match(held, '^(%d+) (%d+)$', #ours + 1)
  if tonumber(round) > tonumber(args.round) then
    return { -1, 0, now }
  end
  redis.call('SET', keys.lock, ours .. args.round .. ' ' .. token, 'KEEPTTL')
  if redis.call('PTTL', keys.lock) < tonumber(args.leaseMs) then
    redis.call('PEXPIRE', keys.lock, args.leaseMs)
  end
  return { 2, token, now }
end

local token = reserveTokens(args.tokens, args.proposed, now)
redis.call('SET', keys.lock, ours .. args.round .. ' ' .. token, 'PX', args.leaseMs)
return { 1, token, now }
