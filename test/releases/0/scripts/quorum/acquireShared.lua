local now = redis.call('TIME')
now = now[1] .. string.sub('00000' .. now[2], -6)
if tonumber(now) > tonumber(ARGV[4]) then
return { -1, 0, now }
end
local held = redis.call('GET', KEYS[1]) or '*;'
local function isShared(held)
return string.sub(held, 1, 2) == '*;'
end
if not isShared(held) then
return { 0, redis.call('PTTL', KEYS[1]), now, held }
end
local nowMs = tonumber(string.sub(now, 1, -4))
local ours, ends = ARGV[1] .. ' ', nowMs + ARGV[3]
local function removeSharer(held, ours)
local first, last = string.find(held, ';' .. ours, 1, true)
if not first then
return held
end
local stop = string.find(held, ';', last + 1, true)
local mine, ends = string.match(string.sub(held, first + 1, stop - 1), '^(.*) (%d+)$')
return string.sub(held, 1, first) .. string.sub(held, stop + 1), mine, tonumber(ends)
end
local others, mine, before = removeSharer(held, ours)
local function withSharer(others, mine, ends)
return others .. mine .. ' ' .. string.format('%.0f', ends) .. ';'
end
local function share(others, mine, ends, nowMs)
local leaseMs = math.max(redis.call('PTTL', KEYS[1]), ends - nowMs)
redis.call('SET', KEYS[1], withSharer(others, mine, ends), 'PX', string.format('%.0f', leaseMs))
end
if mine and before > nowMs then
local round, token = string.match(mine, '^(%d+) (%d+)$', #ours + 1)
if tonumber(round) > tonumber(ARGV[2]) then
return { -1, 0, now }
end
share(others, ours .. ARGV[2] .. ' ' .. token, math.max(before, ends), nowMs)
return { 2, token, now }
end
local place = ARGV[6] % ARGV[5]
local function reserveTokens(tokens, proposed, now, step)
local last = tonumber(redis.call('GET', KEYS[2]))
local back = last and not step and tokens - 1 or 0
local first = math.max((last or 0) + 1, now - back, proposed - back)
if step then
first = math.ceil(first / step) * step
end
redis.call('SET', KEYS[2], string.format('%.0f', first + tokens - 1), 'EX', '86400')
return string.format('%.0f', first)
end
local token = string.format('%.0f', reserveTokens(ARGV[5], ARGV[6] - place, now, ARGV[5]) + place)
share(others, ours .. ARGV[2] .. ' ' .. token, ends, nowMs)
return { 1, token, now }