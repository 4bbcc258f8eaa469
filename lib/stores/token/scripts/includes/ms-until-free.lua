--- @include ./share-time.lua
--- Returns how long the sharers may block an entry of that mode. An exclusive entry waits for the last of them.
local function msUntilFree(sharers, mode)
  local blocker = mode and sharers.count - 1 or 0
  local ends = -redis.call('ZRANGE', keys.queue, blocker, blocker, 'WITHSCORES')[2]
  return ends - shareTime()
end
