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