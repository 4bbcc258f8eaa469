local function raiseFence(last)
local before = redis.call('GET', KEYS[2])
if not before or tonumber(before) < tonumber(last) then
redis.call('SET', KEYS[2], last, 'EX', '86400')
end
end
raiseFence(ARGV[3])
local ours = ARGV[1] .. ' '
local function removeSharer(held, ours)
local first, last = string.find(held, ';' .. ours, 1, true)
if not first then
return held
end
local stop = string.find(held, ';', last + 1, true)
local mine, ends = string.match(string.sub(held, first + 1, stop - 1), '^(.*) (%d+)$')
return string.sub(held, 1, first) .. string.sub(held, stop + 1), mine, tonumber(ends)
end
local others, mine, ends = removeSharer(redis.call('GET', KEYS[1]) or '', ours)
if not mine then
return 0
end
local function withSharer(others, mine, ends)
return others .. mine .. ' ' .. string.format('%.0f', ends) .. ';'
end
redis.call('SET', KEYS[1], withSharer(others, ours .. ARGV[2], ends), 'KEEPTTL')
return 1