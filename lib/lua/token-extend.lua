--[[ Give the lock a new lease if it is still the owner's; a lease never gets shorter.
  KEYS[1] lock
  ARGV[1] owner   ARGV[2] lease in ms
  returns 1 renewed | 0 not the owner's ]]
local held = redis.call('GET', KEYS[1])
local ours = ARGV[1] .. ' '
if not held or string.sub(held, 1, #ours) ~= ours then
  return 0
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
