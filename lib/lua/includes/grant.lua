--- @include next-token
--- @include mode
--- @include share
--[[ Locks for a claim, with the tokens that it gets. Answers the first. Whoever shares the lock gets one, and passes it on to
  nobody.
  KEYS[1] lock   KEYS[3] queue, and before it those who share the lock ]]
local function grant(claim, lease, tokens, now)
  if modeOf(claim) then
    share(claim, lease, now)
    return nextToken('1', now)
  end
  local token = nextToken(tokens, now)
  redis.call('SET', KEYS[1], claim .. ' ' .. token, 'PX', lease)
  return token
end
