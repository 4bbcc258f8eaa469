--- @include ./next-token.lua
--- @include ./mode-of.lua
--- @include ./share.lua
--- Grants the lock to an entry that fits. Returns its token.
local function grant(holders, entry, leaseMs)
  local token, mode = nextToken(), modeOf(entry)
  if mode then
    share(entry, leaseMs)
  else
    redis.call('SET', keys.lock, entry .. ' ' .. token, 'PX', leaseMs)
  end
  holders.mode, holders.count = mode, holders.count + 1
  return token
end
