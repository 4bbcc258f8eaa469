local queue = redis.pcall('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
if queue.err then
return {}
end
local function shareTime()
return 1e13 - redis.call('PTTL', KEYS[1])
end
for i = 2, #queue, 2 do
local score = tonumber(queue[i])
local remaining = -score - shareTime()
queue[i] = score > 0 and 0 or remaining > 0 and remaining or -1
end
return queue