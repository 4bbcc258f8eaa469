--[[ Reserves tokens and returns the first.
  They are higher than all tokens of this node. The last is not lower than the node's clock and the caller's proposal,
  and not higher unless tokens are asked for faster than one per microsecond. ]]
local function reserveTokens(tokens, proposed, now)
  local last = tonumber(redis.call('GET', keys.fence))
  -- Without a last token, earlier microseconds may have been given out before a flush.
  local back = last and tokens - 1 or 0
  local first = math.max((last or 0) + 1, now - back, proposed - back)
  redis.call('SET', keys.fence, string.format('%.0f', first + tokens - 1), 'EX', '86400')
  return string.format('%.0f', first)
end
