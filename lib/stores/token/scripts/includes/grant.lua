--- @include ./next-token.lua
--- @include ./mode-of.lua
--- @include ./share.lua
--[[ Grants the lock to an entry that fits. Returns its token.
  @param about what the caller of an exclusive entry does. Nil: its own request adds it ]]
local function grant(holders, entry, leaseMs, about)
  local token, mode = nextToken(), modeOf(entry)
  if mode then
    share(entry, leaseMs)
  else
    redis.call('SET', keys.lock, entry .. ' ' .. token .. (about or ''), 'PX', leaseMs)
  end
  holders.mode, holders.count = mode, holders.count + 1
  return token
end
