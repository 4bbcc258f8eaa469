--- @include ./share-time.lua
--- @include ./steps.lua
--- @include ./fits.lua
--- Returns why the caller does not get the lock: the reply `held` of the acquire script.
local function heldBy(holders, mode, queued)
  local ahead = queued and redis.call('ZRANK', keys.queue, args.entry) or -1
  queued = queued and 1 or 0
  if holders.count == 0 or (steps == 0 and fits(holders, mode)) then
    return { queued, 0, '', 0, ahead }
  end
  if not holders.mode then
    local value = holders.value or redis.call('GET', keys.lock)
    -- The value of another client may be long.
    return { queued, redis.call('PTTL', keys.lock), string.sub(value, 1, 800), 0, ahead }
  end
  -- An exclusive caller waits for the last.
  local blocker = mode and 0 or -1
  local found = redis.call('ZRANGE', keys.holders, blocker, blocker, 'WITHSCORES')
  return { queued, found[2] - shareTime(), found[1], holders.count, ahead }
end
