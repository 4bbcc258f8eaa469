--[[ End the lock if it is still the owner's, now or after the rest of its minimum hold; running twice harms nothing.
  KEYS[1] lock
  ARGV[1] owner   ARGV[2] ms to keep it closed, 0 to free it now
  returns 1 ended | 0 not the owner's ]]
local held = redis.call('GET', KEYS[1])
local ours = ARGV[1] .. ' '
if not held or string.sub(held, 1, #ours) ~= ours then
  return 0
end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
else
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
