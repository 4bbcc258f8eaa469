--[[ Writes the quorum's token to a node that granted another one, and makes all tokens reserved with it unusable for
  others. The tokens become unusable even if the lock is another owner's.
  keys.lock
  keys.fence
  args.round      owner and round
  args.token
  args.lastToken  last reserved token
  returns 1: written | 0: the lock is not held in that round ]]
--- @include ./includes/raise-fence.lua
raiseFence(args.lastToken)
local held = redis.call('GET', keys.lock)
local ours = args.round .. ' '
if not held or string.sub(held, 1, #ours) ~= ours then
  return 0
end
redis.call('SET', keys.lock, ours .. args.token, 'KEEPTTL')
return 1
