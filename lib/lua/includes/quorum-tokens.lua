--[[ Sets tokens aside: higher than all that this node has given, and not lower than its clock and what the asker proposes; where
  there is a step, from a multiple of it on. Answers the first.
  KEYS[2] fence: the last token given under this hash tag ]]
local function setAside(tokens, proposed, now, step)
  local last = tonumber(redis.call('GET', KEYS[2]) or '0')
  local first = math.max(last + 1, tonumber(now), tonumber(proposed))
  if step then
    first = math.ceil(first / step) * step
  end
  redis.call('SET', KEYS[2], string.format('%.0f', first + tokens - 1), 'EX', '86400')
  return string.format('%.0f', first)
end
