--[[ End a node's lock if it is still the owner's, now or after the rest of its minimum hold. Running twice harms nothing.
  KEYS[1] lock
  ARGV[1] owner, alone or with the only round that is meant   ARGV[2] keep it closed for so many ms, 0 to end it now
  returns 1 ended | 0 not the owner's ]]
local held = redis.call('GET', KEYS[1])
local ours = ARGV[1] .. ' '
if not held or string.sub(held, 1, #ours) ~= ours then
  return 0
end
if ARGV[2] ~= '0' then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
  redis.call('DEL', KEYS[1])
end
return 1
