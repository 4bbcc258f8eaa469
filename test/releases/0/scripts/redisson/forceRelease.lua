if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
return 0
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
local wrong = kindError()
if wrong then
return wrong
end
redis.call('DEL', KEYS[1])
local function publish(message)
local receivers = ARGV[3] and redis.pcall('SPUBLISH', ARGV[2], message)
if not receivers or (type(receivers) == 'table' and string.find(receivers.err, 'nknown')) then
receivers = redis.pcall('PUBLISH', ARGV[2], message)
end
return receivers
end
publish('0')
return 1