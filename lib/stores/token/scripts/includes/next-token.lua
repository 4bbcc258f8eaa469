--- @include ../../../../redis/scripts/includes/now.lua
--[[ Returns the token of the next grant: the server's time, or 17 more than the last token if the clock was set back or
  grants are very frequent. The 16 numbers between are for callers to which a holder passes the lock without a request.
]]
local function nextToken()
  local last = tonumber(redis.call('SET', keys.fence, now, 'EX', '86400', 'GET') or nil)
  if last and last + 17 > tonumber(now) and last < 9e15 then
    local token = string.format('%.0f', last + 17)
    redis.call('SET', keys.fence, token, 'EX', '86400')
    return token
  end
  return now
end
