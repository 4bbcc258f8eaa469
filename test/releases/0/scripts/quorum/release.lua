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