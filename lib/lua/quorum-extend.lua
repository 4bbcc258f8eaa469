--[[ Give a node's lock a new lease if it is still the owner's; a lease never gets shorter. Tells what is needed to give the lock
  back to nodes that have lost it.
  KEYS[1] lock   KEYS[2] fence
  ARGV[1] owner   ARGV[2] lease in ms
  returns {value, last token given or 0} renewed | 0 somebody else's | -1 nobody's ]]
local held = redis.call('GET', KEYS[1])
if not held then
  return -1
end
local ours = ARGV[1] .. ' '
if string.sub(held, 1, #ours) ~= ours then
  return 0
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return { held, redis.call('GET', KEYS[2]) or '0' }
