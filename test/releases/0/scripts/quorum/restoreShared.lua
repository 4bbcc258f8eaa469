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
local held = redis.call('GET', KEYS[1]) or '*;'
local function isShared(held)
return string.sub(held, 1, 2) == '*;'
end
if not isShared(held) then
return 0
end
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
local others, mine, ends = removeSharer(held, string.match(ARGV[1], '^%S+ '))
if mine and ends > nowMs then
return 0
end
local function withSharer(others, mine, ends)
return others .. mine .. ' ' .. string.format('%.0f', ends) .. ';'
end
local function share(others, mine, ends, nowMs)
local leaseMs = math.max(redis.call('PTTL', KEYS[1]), ends - nowMs)
redis.call('SET', KEYS[1], withSharer(others, mine, ends), 'PX', string.format('%.0f', leaseMs))
end
share(others, ARGV[1], nowMs + ARGV[3], nowMs)
return 1