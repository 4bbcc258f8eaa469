--[[ Locks for an owner and sets its tokens aside: they begin with the server's time, or behind the last token where the
  clock did not move on. Answers the first.
  KEYS[1] lock   KEYS[2] fence: the last token given under this hash tag ]]
local function grant(owner, lease, tokens, now)
  local token = now
  local last = redis.call('SET', KEYS[2], string.format('%.0f', token + tokens - 1), 'PX', 86400000, 'GET')
  if last and tonumber(last) >= token then
    token = tonumber(last) + 1
    redis.call('SET', KEYS[2], string.format('%.0f', token + tokens - 1), 'PX', 86400000)
  end
  redis.call('SET', KEYS[1], owner .. ' ' .. string.format('%.0f', token), 'PX', lease)
  return token
end
