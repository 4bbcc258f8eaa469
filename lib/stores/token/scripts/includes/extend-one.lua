--- @include ./mode-of.lua
--- @include ./is-of.lua
--- @include ./marker.lua
--- @include ./share-time.lua
--- @include ./remove-share.lua
--- @include ./share.lua
--- Renews one lease. Returns 1: renewed, or 0: not held by the owner. Writes in any case, for a WAIT behind it.
local function extendOne()
  local value = redis.call('GET', keys.lock)
  if not modeOf(args.entry) then
    if not value or not isOf(value, args.entry) then
      return 0
    end
    redis.call('PEXPIRE', keys.lock, math.max(redis.call('PTTL', keys.lock), args.leaseMs))
    return 1
  end
  if value and value ~= marker then
    -- Another client has the lock beside this reader, which has lost it.
    removeShare(args.entry)
    return 0
  end
  local ends = tonumber(redis.call('ZSCORE', keys.holders, args.entry) or -1)
  if ends <= shareTime() then
    return 0
  end
  -- Out of memory, Redis refuses ZADD unless the script has written before. This write changes nothing.
  redis.call('ZREM', keys.holders, '')
  share(args.entry, args.leaseMs)
  return 1
end
