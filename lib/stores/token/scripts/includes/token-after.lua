--[[ Returns the next token after the last one, of up to `tokens` that are reserved, and how many there are.
  Tokens are the microseconds of the server time since the last token, so that no token is ahead of the clock. If the
  clock has not moved on, or was set back, the next token is the successor of the last one. If there is no last token,
  or it is not a safe integer, only one token is reserved: a flush may have removed the record of earlier ones.
  @param last what the fence held before `now` was written to it ]]
local function tokenAfter(last, tokens, now)
  last = tonumber(last)
  if not last or not (last < 9e15) then
    return now, 1
  end
  if last >= tonumber(now) then
    local token = string.format('%.0f', last + 1)
    redis.call('SET', keys.fence, token, 'EX', '86400')
    return token, 1
  end
  if tokens == '1' then
    return now, 1
  end
  local first = math.max(last + 1, now - tokens + 1)
  return string.format('%.0f', first), now - first + 1
end
