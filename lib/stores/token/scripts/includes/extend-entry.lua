--- @include ./mode-of.lua
--- @include ./share-time.lua
--- @include ./share.lua
--- Renews the lease of an entry. Returns 1: renewed, or 0: not held by the entry.
local function extendEntry(entry)
  if not modeOf(entry) then
    local held = redis.call('GET', keys.lock)
    local ours = entry .. ' '
    if not held or string.sub(held, 1, #ours) ~= ours then
      return 0
    end
    redis.call('PEXPIRE', keys.lock, math.max(redis.call('PTTL', keys.lock), tonumber(args.leaseMs)))
    return 1
  end
  local now = shareTime()
  if -(redis.call('ZSCORE', keys.queue, entry) or 0) <= now then
    return 0
  end
  -- Out of memory, Redis refuses ZADD unless the script has written before. This write needs no memory.
  redis.call('PEXPIRE', keys.queue, 1e13 - now)
  share(entry, args.leaseMs)
  return 1
end
