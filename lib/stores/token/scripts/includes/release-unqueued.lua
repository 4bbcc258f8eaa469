--[[ Releases a lock that the entry holds exclusively and that nobody waits for, or keeps it closed for
  `closedForMs`. If another entry holds the lock, the entry leaves the queue. Returns 1: released, or 0: not held by
  the entry. Returns nil in all other cases, and whether the entry holds the lock. ]]
local function releaseUnqueued(entry, closedForMs)
  local held = redis.call('GET', keys.lock)
  local ours = entry .. ' '
  local mine = held and string.sub(held, 1, #ours) == ours
  if mine and closedForMs ~= '0' then
    redis.call('PEXPIRE', keys.lock, closedForMs)
    return 1
  end
  if mine and redis.call('EXISTS', keys.queue) == 0 then
    redis.call('DEL', keys.lock)
    return 1
  end
  if held and not mine then
    redis.pcall('ZREM', keys.queue, entry)
    return 0
  end
  return nil, mine
end
