--[[ Returns one node's vote: the node gives the lock to the ballot if it is free, or already the ballot's. The ballot
  then has its full lease. A token is higher than all tokens of this node. The last of the 17 tokens of a grant is not
  lower than the node's clock and the proposal, so that nodes whose clocks differ give the same token.
  keys.lock      ballot and token
  keys.fence     last token of the slot
  args.ballot
  args.leaseMs
  args.proposed  proposed token
  returns {1, now, token}: granted | {0, now, remaining, value}: held
  `now` is the server time in µs. `remaining` is the rest of the lease in ms, or -1. ]]
--- @include ../../../redis/scripts/includes/now.lua
local held = redis.call('GET', keys.lock)
local ours = args.ballot .. ' '
if held and string.sub(held, 1, #ours) ~= ours then
  return { 0, now, redis.call('PTTL', keys.lock), held }
end
local token = held and string.sub(held, #ours + 1)
if not token then
  local last = tonumber(redis.call('GET', keys.fence))
  -- Without a last token, earlier microseconds may have been given out before a flush.
  local back = last and 16 or 0
  local first = math.max((last or 0) + 1, now - back, args.proposed - back)
  redis.call('SET', keys.fence, string.format('%.0f', first + 16), 'EX', 86400)
  token = string.format('%.0f', first)
end
redis.call('SET', keys.lock, ours .. token, 'PX', math.max(args.leaseMs, redis.call('PTTL', keys.lock)))
return { 1, now, token }
