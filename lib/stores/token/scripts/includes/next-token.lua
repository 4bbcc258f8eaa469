--- @include ./token-after.lua
--- Reserves up to `tokens` tokens, at least one. Returns the first and how many there are.
local function nextToken(tokens, now)
  return tokenAfter(redis.call('SET', keys.fence, now, 'EX', '86400', 'GET'), tokens, now)
end
