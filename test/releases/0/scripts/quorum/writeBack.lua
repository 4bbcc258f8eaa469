local function raiseFence(last)
local before = redis.call('GET', KEYS[2])
if not before or tonumber(before) < tonumber(last) then
redis.call('SET', KEYS[2], last, 'EX', '86400')
end
end
raiseFence(ARGV[3])
local held = redis.call('GET', KEYS[1])
local ours = ARGV[1] .. ' '
if not held or string.sub(held, 1, #ours) ~= ours then
return 0
end
redis.call('SET', KEYS[1], ours .. ARGV[2], 'KEEPTTL')
return 1