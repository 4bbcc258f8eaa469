--[[ Give the lock its lease once more if it is still the owner's; a lease never gets shorter. It is always a write, even of what is
  there already: only then WAIT, sent behind it, covers this and all that was written before.
  KEYS[1] lock
  ARGV[1] owner   ARGV[2] lease in ms
  returns 1 written | 0 not the owner's ]]
local held = redis.call('GET', KEYS[1])
local ours = ARGV[1] .. ' '
if not held or string.sub(held, 1, #ours) ~= ours then
  return 0
end
redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])))
return 1
