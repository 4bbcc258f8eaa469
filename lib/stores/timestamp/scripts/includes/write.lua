--[[ Writes the expiry and its holder. Both keys end at the same millisecond, which isUnchanged() compares. ]]
local function write(expiry, owner, ttlMs, now)
  local endsAt = string.format('%.0f', math.floor(tonumber(now) / 1000) + tonumber(ttlMs))
  redis.call('SET', keys.lock, expiry, 'PXAT', endsAt)
  redis.call('SET', keys.holder, owner, 'PXAT', endsAt)
end
