local now = redis.call('TIME')
now = now[1] .. string.sub('00000' .. now[2], -6)
local function isUnchanged()
local before = redis.call('PTTL', KEYS[1])
local holder = redis.call('PTTL', KEYS[2])
return holder <= before and holder >= redis.call('PTTL', KEYS[1])
end
local function isOurs(owner, lowest, highest, raceUntil, endsAt, now, written)
local held = redis.call('GET', KEYS[1])
if now >= endsAt or redis.call('GET', KEYS[2]) ~= owner then
return false
end
if held == written and isUnchanged() then
return true
end
held = tonumber(held or '')
if not held or held < tonumber(lowest) or held > tonumber(highest) then
return false
end
return isUnchanged() or (now < raceUntil and redis.call('PTTL', KEYS[1]) == -1)
end
if isOurs(ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], now) then
redis.call('DEL', KEYS[1], KEYS[2])
return 1
end
return 0