if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
return -2
end
if #redis.call('HKEYS', KEYS[1]) > 1 then
redis.call('HDEL', KEYS[1], ARGV[1])
return 0
end
local function publish(message)
local receivers = ARGV[4] and redis.pcall('SPUBLISH', ARGV[3], message)
if not receivers or (type(receivers) == 'table' and string.find(receivers.err, 'nknown')) then
receivers = redis.pcall('PUBLISH', ARGV[3], message)
end
return receivers
end
if ARGV[2] == '0' then
redis.call('DEL', KEYS[1])
else
redis.call('PEXPIRE', KEYS[1], ARGV[2])
publish('1')
end
local receivers = publish('0')
return type(receivers) == 'number' and receivers or -1