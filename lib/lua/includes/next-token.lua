--[[ Sets tokens aside: they begin with the server's time, or behind the last token where the clock did not move on. Answers
  the first.
  KEYS[2] fence: the last token given under this hash tag ]]
local function nextToken(tokens, now)
  local token, last = now, now
  if tokens ~= '1' then
    last = string.format('%.0f', now + tokens - 1)
  end
  local before = redis.call('SET', KEYS[2], last, 'EX', '86400', 'GET')
  if (tonumber(before or 0) or 0) >= tonumber(now) then
    token = string.format('%.0f', before + 1)
    redis.call('SET', KEYS[2], string.format('%.0f', before + tokens), 'EX', '86400')
  end
  return token
end
