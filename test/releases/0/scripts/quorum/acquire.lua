local now = redis.call('TIME')
now = now[1] .. string.sub('00000' .. now[2], -6)
if tonumber(now) > tonumber(ARGV[4]) then
return { -1, 0, now }
end
local held = redis.call('GET', KEYS[1])
local ours = ARGV[1] .. ' '
if held and string.sub(held, 1, #ours) ~= ours then
return { 0, redis.call('PTTL', KEYS[1]), now, held }
end
if held then
local round, token = string.match(held, '^(%d+) (%d+)$', #ours + 1)
if tonumber(round) > tonumber(ARGV[2]) then
return { -1, 0, now }
end
redis.call('SET', KEYS[1], ours .. ARGV[2] .. ' ' .. token, 'KEEPTTL')
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return { 2, token, now }
end
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
local token = reserveTokens(ARGV[5], ARGV[6], now)
redis.call('SET', KEYS[1], ours .. ARGV[2] .. ' ' .. token, 'PX', ARGV[3])
return { 1, token, now }