--- @include ./mode-of.lua
--- @include ./read-sharers.lua
--- @include ./share.lua
--- @include ./hand-off.lua
--- @include ./handoffs.lua
--[[ Releases the lock if the entry holds or shares it, and removes the entry from the queue. Hands a lock that is free
  then, or may be shared, to the head of the queue. Returns 1: released, or 0: not held by the entry. Adds 2 if the
  script has to run again to hand off more.
  @param mine whether the entry holds the lock exclusively ]]
local function releaseToQueue(entry, mine, closedForMs, now)
  local sharers, released = { count = 0 }, 1
  if not mine then
    local mode = modeOf(entry)
    sharers = readSharers(mode)
    local shares = mode and tonumber(redis.call('ZSCORE', keys.queue, entry) or 0) < 0
    redis.pcall('ZREM', keys.queue, entry)
    if shares and closedForMs ~= '0' then
      share(entry, closedForMs)
      return 1
    end
    sharers.count = sharers.count - (shares and 1 or 0)
    released = shares and 1 or 0
  end
  handOff(sharers, { prefix = args.prefix, sharded = args.sharded }, args.handoffMs, args.tokens, now)
  -- An exclusive successor has overwritten the lock, and excludes all others.
  if mine and not sharers.excluded then
    redis.call('DEL', keys.lock)
  end
  return handoffs.more and released + 2 or released
end
