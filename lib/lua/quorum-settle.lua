--[[ Write the quorum's token back to a node that gave another one, and close all tokens that were set aside with it to others;
  those even where the lock is somebody else's.
  KEYS[1] lock   KEYS[2] fence
  ARGV[1] owner and round   ARGV[2] token   ARGV[3] last token that was set aside
  returns 1 written | 0 the lock is not that round's ]]
--- @include raise-fence
raiseFence(ARGV[3])
local held = redis.call('GET', KEYS[1])
local ours = ARGV[1] .. ' '
if not held or string.sub(held, 1, #ours) ~= ours then
  return 0
end
redis.call('SET', KEYS[1], ours .. ARGV[2], 'KEEPTTL')
return 1
