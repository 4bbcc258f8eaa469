--- @include next-token
--- @include mode
--- @include share
--[[ Locks for a claim.
  KEYS[1] lock   KEYS[3] queue, and before it those who share the lock ]]
local function lock(claim, lease, token)
  if modeOf(claim) then
    share(claim, lease)
  else
    redis.call('SET', KEYS[1], claim .. ' ' .. token, 'PX', lease)
  end
end

--- Locks for a claim, with the tokens that it gets. Answers the first. Whoever shares the lock gets one, and passes it on to nobody.
local function grant(claim, lease, tokens, now)
  local token = nextToken(modeOf(claim) and '1' or tokens, now)
  lock(claim, lease, token)
  return token
end
