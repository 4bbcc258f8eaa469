--[[ Reserves tokens and returns the first.
  They begin with the server time, or after the last token if the clock has not moved on. ]]
local function nextToken(tokens, now)
  local token, last = now, now
  if tokens ~= '1' then
    last = string.format('%.0f', now + tokens - 1)
  end
  local before = redis.call('SET', keys.fence, last, 'EX', '86400', 'GET')
  if (tonumber(before or 0) or 0) >= tonumber(now) then
    token = string.format('%.0f', before + 1)
    redis.call('SET', keys.fence, string.format('%.0f', before + tokens), 'EX', '86400')
  end
  return token
end
