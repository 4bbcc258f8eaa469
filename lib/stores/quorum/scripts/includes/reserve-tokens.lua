--[[ Reserves tokens and returns the first.
  They are higher than all tokens of this node, and not lower than its clock and the caller's proposal.
  With a `step`, the first is a multiple of it. ]]
local function reserveTokens(tokens, proposed, now, step)
  local last = tonumber(redis.call('GET', keys.fence) or '0')
  local first = math.max(last + 1, tonumber(now), tonumber(proposed))
  if step then
    first = math.ceil(first / step) * step
  end
  redis.call('SET', keys.fence, string.format('%.0f', first + tokens - 1), 'EX', '86400')
  return string.format('%.0f', first)
end
