--[[ Writes the token of a grant to a node that gave another one. From then on, others cannot get any of the 17 tokens
  of the grant, even if the lock is another owner's.
  keys.lock
  keys.fence
  args.ballot
  args.token
  returns 1: written | 0: the ballot does not have the lock ]]
local last = math.max(redis.call('GET', keys.fence) or 0, args.token + 16)
redis.call('SET', keys.fence, string.format('%.0f', last), 'EX', 86400)
local held = redis.call('GET', keys.lock)
local ours = args.ballot .. ' '
if not held or string.sub(held, 1, #ours) ~= ours then
  return 0
end
redis.call('SET', keys.lock, ours .. args.token, 'KEEPTTL')
return 1
