--- @include ./share-time.lua
--[[ Returns how long the sharers may block an entry of that mode, and which of them does. An exclusive entry waits for
  the last of them. ]]
local function msUntilFree(sharers, mode)
  local blocker = mode and sharers.count - 1 or 0
  local found = redis.call('ZRANGE', keys.queue, blocker, blocker, 'WITHSCORES')
  return -found[2] - shareTime(), found[1]
end
