local held = redis.call('GET', KEYS[1]) or '*;'
local function isShared(held)
return string.sub(held, 1, 2) == '*;'
end
if not isShared(held) then
return 0
end
local now = redis.call('TIME')
now = now[1] .. string.sub('00000' .. now[2], -6)
local nowMs = tonumber(string.sub(now, 1, -4))
local function removeSharer(held, ours)
local first, last = string.find(held, ';' .. ours, 1, true)
if not first then
return held
end
local stop = string.find(held, ';', last + 1, true)
local mine, ends = string.match(string.sub(held, first + 1, stop - 1), '^(.*) (%d+)$')
return string.sub(held, 1, first) .. string.sub(held, stop + 1), mine, tonumber(ends)
end
local others, mine, ends = removeSharer(held, ARGV[1] .. ' ')
if not mine or ends <= nowMs then
return -1
end
redis.call('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[1]))
local function withSharer(others, mine, ends)
return others .. mine .. ' ' .. string.format('%.0f', ends) .. ';'
end
local function share(others, mine, ends, nowMs)
local leaseMs = math.max(redis.call('PTTL', KEYS[1]), ends - nowMs)
redis.call('SET', KEYS[1], withSharer(others, mine, ends), 'PX', string.format('%.0f', leaseMs))
end
share(others, mine, math.max(ends, nowMs + ARGV[2]), nowMs)
return { mine, redis.call('GET', KEYS[2]) or '0' }