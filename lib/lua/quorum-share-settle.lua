--[[ Write the quorum's token back to a node that gave a sharer another one, and close all tokens that were set aside with it to
  others; those even where it does not share the lock.
  KEYS[1] lock: all who share it   KEYS[2] fence
  ARGV[1] owner and round   ARGV[2] token   ARGV[3] last token that was set aside
  returns 1 written | 0 that round does not share the lock ]]
--- @include raise-fence
raiseFence(ARGV[3])
--- @include quorum-sharers
local ours = ARGV[1] .. ' '
local others, mine, ends = takeOut(redis.call('GET', KEYS[1]) or '', ours)
if not mine then
  return 0
end
redis.call('SET', KEYS[1], withSharer(others, ours .. ARGV[2], ends), 'KEEPTTL')
return 1
