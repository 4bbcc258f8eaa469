--[[ Writes the quorum's token to a node that granted a sharer another one, and makes all tokens reserved with it
  unusable for others. The tokens become unusable even if the owner does not share the lock.
  keys.lock       all sharers
  keys.fence
  args.round      owner and round
  args.token
  args.lastToken  last reserved token
  returns 1: written | 0: the lock is not shared in that round ]]
--- @include ./includes/raise-fence.lua
--- @include ./includes/remove-sharer.lua
--- @include ./includes/with-sharer.lua
raiseFence(args.lastToken)
local ours = args.round .. ' '
local others, mine, ends = removeSharer(redis.call('GET', keys.lock) or '', ours)
if not mine then
  return 0
end
redis.call('SET', keys.lock, withSharer(others, ours .. args.token, ends), 'KEEPTTL')
return 1
