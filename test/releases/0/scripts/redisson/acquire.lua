local now = redis.call('TIME')
now = now[1] .. string.sub('00000' .. now[2], -6)
if now > ARGV[3] then
return { -1, 0, now }
end
if redis.call('EXISTS', KEYS[1]) == 0 then
local token = KEYS[2] and redis.call('INCR', KEYS[2]) or 0
redis.call('HSET', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return { 1, token, now }
end
local remaining = redis.call('PTTL', KEYS[1])
local function isAlone(owner)
return redis.call('HEXISTS', KEYS[1], owner) == 1 and #redis.call('HKEYS', KEYS[1]) == 1
end
local function kindError()
if redis.call('HEXISTS', KEYS[1], 'mode') == 1 then
return redis.error_reply('WRONGTYPE the key is a ReadWriteLock of Redisson')
end
local fields = redis.call('HKEYS', KEYS[1])
if #fields > 1 or not string.find(fields[1], ':%d+$') then
return redis.error_reply('WRONGTYPE the key is a hash and no lock of Redisson')
end
end
if not isAlone(ARGV[1]) then
return kindError() or { 0, remaining, now }
end
if remaining < tonumber(ARGV[2]) then
redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return { 1, KEYS[2] and (redis.call('GET', KEYS[2]) or redis.call('INCR', KEYS[2])) or 0, now }