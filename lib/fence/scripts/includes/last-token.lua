--- Returns the token that opened the fence last, false if none did, or an error if the key holds something else.
local function lastToken()
  local last = redis.pcall('GET', keys.fence)
  if type(last) == 'table' and string.find(last.err, 'WRONGTYPE') then
    return redis.error_reply('NOTAFENCE a value of another type')
  end
  if type(last) == 'string' and not string.find(last, '^%d+$') then
    return redis.error_reply('NOTAFENCE a string that is not a token')
  end
  return last
end
