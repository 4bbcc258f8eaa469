local function lastToken()
local last = redis.pcall('GET', KEYS[1])
if type(last) == 'table' and string.find(last.err, 'WRONGTYPE') then
return redis.error_reply('NOTAFENCE a value of another type')
end
if type(last) == 'string' and not string.find(last, '^%d+$') then
return redis.error_reply('NOTAFENCE a text that is no token')
end
return last
end
do
local last = lastToken()
if type(last) == 'table' then
return last
end
if last ~= ARGV[1] then
return redis.error_reply('STALEFENCE a later holder has opened the fence')
end
end