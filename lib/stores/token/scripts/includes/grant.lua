--- @include ./next-token.lua
--- @include ./mode-of.lua
--- @include ./lock.lua
--[[ Grants the lock to an entry. Returns its first token and how many are reserved. A sharer gets one token, because it
  hands the lock to nobody. ]]
local function grant(entry, leaseMs, tokens, now)
  local token, reserved = nextToken(modeOf(entry) and '1' or tokens, now)
  lock(entry, leaseMs, token)
  return token, reserved
end
