local function notifyForced(entry)
local instance = string.match(entry, '^([%w_-]+):%d+/')
if not instance then
return -1
end
local receivers
if ARGV[3] then
receivers = redis.pcall('SPUBLISH', ARGV[2] .. instance, 'forced ' .. KEYS[1])
else
receivers = redis.pcall('PUBLISH', ARGV[2] .. instance, 'forced ' .. KEYS[1])
end
return type(receivers) == 'number' and receivers or -1
end
return notifyForced(ARGV[1])