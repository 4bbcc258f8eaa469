--- Returns whether an entry waits for the lock.
local function hasWaiters()
  return redis.call('ZCOUNT', keys.queue, '(0', '+inf') > 0
end
