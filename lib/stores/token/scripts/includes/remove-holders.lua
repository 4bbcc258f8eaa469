--[[ Removes a lock if it still has that value, or those of its sharers that still share it. Returns the entries that
  were removed. ]]
local function removeHolders(held, shared)
  if not shared then
    if redis.call('GET', keys.lock) ~= held then
      return {}
    end
    redis.call('DEL', keys.lock)
    return { held }
  end
  local removed = {}
  for entry in string.gmatch(held, '[^,]+') do
    if tonumber(redis.call('ZSCORE', keys.queue, entry) or 0) < 0 then
      redis.call('ZREM', keys.queue, entry)
      table.insert(removed, entry)
    end
  end
  return removed
end
