local now = redis.call('TIME')
now = now[1] .. string.sub('00000' .. now[2], -6)
if tonumber(now) > tonumber(ARGV[4]) then
return 0
end
local function raiseFence(last)
local before = redis.call('GET', KEYS[2])
if not before or tonumber(before) < tonumber(last) then
redis.call('SET', KEYS[2], last, 'EX', '86400')
end
end
raiseFence(ARGV[2])
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[3]) and 1 or 0