--[[ Writes the token of a grant to a node that gave another one. All 17 tokens of the grant are unusable for others from
  then on, even if the lock is another owner's.
  keys.lock
  keys.fence
  args.ballot
  args.token
  returns 1: written | 0: the ballot does not have the lock ]]
local last = tonumber(redis.call('GET', keys.fence))
if not last or last < args.token + 16 then
  redis.call('SET', keys.fence, string.format('%.0f', args.token + 16), 'EX', 86400)
end
local held = redis.call('GET', keys.lock)
local ours = args.ballot .. ' '
if not held or string.sub(held, 1, #ours) ~= ours then
  return 0
end
redis.call('SET', keys.lock, ours .. args.token, 'KEEPTTL')
return 1
