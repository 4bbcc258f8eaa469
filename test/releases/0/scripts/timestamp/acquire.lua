local now = redis.call('TIME')
now = now[1] .. string.sub('00000' .. now[2], -6)
if now > ARGV[6] then
return { -1, now }
end
local held = redis.call('GET', KEYS[1])
local function isUnchanged()
local before = redis.call('PTTL', KEYS[1])
local holder = redis.call('PTTL', KEYS[2])
return holder <= before and holder >= redis.call('PTTL', KEYS[1])
end
if held == ARGV[3] and redis.call('GET', KEYS[2]) == ARGV[1] and isUnchanged() then
return { 1, now }
end
if held then
local expiry = string.match(held, '^%d+%.?%d*$') and tonumber(held)
local foreign = ARGV[5] == 'ms' and expiry and expiry >= 1e9 and expiry < 1e10
if not expiry or foreign or tonumber(ARGV[2]) <= expiry then
local owner = redis.call('GET', KEYS[2])
return { 0, now, held, owner and isUnchanged() and owner or nil }
end
end
local function write(expiry, owner, ttlMs, now)
local endsAt = string.format('%.0f', math.floor(tonumber(now) / 1000) + tonumber(ttlMs))
redis.call('SET', KEYS[1], expiry, 'PXAT', endsAt)
redis.call('SET', KEYS[2], owner, 'PXAT', endsAt)
end
write(ARGV[3], ARGV[1], ARGV[4], now)
return { held and 2 or 1, now }