--- @include ./mode-of.lua
--- @include ./share.lua
--- Writes the lock, or the share of it, for an entry.
local function lock(entry, leaseMs, token)
  if modeOf(entry) then
    share(entry, leaseMs)
  else
    redis.call('SET', keys.lock, entry .. ' ' .. token, 'PX', leaseMs)
  end
end
