local held = redis.call('GET', KEYS[1])
local function isShared(held)
return string.sub(held, 1, 2) == '*;'
end
if not held or not isShared(held) then
return 0
end
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
if not mine then
return 0
end
local now = redis.call('TIME')
now = now[1] .. string.sub('00000' .. now[2], -6)
local nowMs = tonumber(string.sub(now, 1, -4))
local active = ends > nowMs
local function withSharer(others, mine, ends)
return others .. mine .. ' ' .. string.format('%.0f', ends) .. ';'
end
if active and ARGV[2] ~= '0' then
others = withSharer(others, mine, nowMs + ARGV[2])
end
local living, last = { '*;' }, nowMs
for sharer, over in string.gmatch(others, '([^;]+ (%d+);)') do
if tonumber(over) > nowMs then
living[#living + 1] = sharer
last = math.max(last, tonumber(over))
end
end
if last == nowMs then
redis.call('DEL', KEYS[1])
else
redis.call('PEXPIRE', KEYS[1], last - nowMs)
redis.call('SET', KEYS[1], table.concat(living), 'PXAT', string.format('%.0f', last))
end
return active and 1 or 0