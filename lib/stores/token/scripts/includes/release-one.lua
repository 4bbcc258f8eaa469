--- @include ./mode-of.lua
--- @include ./is-of.lua
--- @include ./read-holders.lua
--- @include ./remove-share.lua
--- @include ./keep-shares.lua
--- @include ./share.lua
--- @include ./hand-off.lua
--- @include ./wake-first.lua
--- Releases one lock, or leaves its queue. Returns 1: the owner held it, or 0.
local function releaseOne()
  local holders = readHolders()
  local value = holders.value
  local hasLeft = redis.call('ZREM', keys.queue, args.entry) == 1
  if value and isOf(value, args.entry) then
    if args.closedForMs == '0' then
      redis.call('DEL', keys.lock)
      handOff({ count = 0 })
    else
      local isDone = string.sub(args.closedForMs, 1, 1) == '-'
      local mark = isDone and 'v2-!!' or 'v2-!'
      redis.call('SET', keys.lock, mark .. string.sub(value, 4), 'PX', math.abs(args.closedForMs))
      wakeFirst()
    end
    return 1
  end
  local hadShare = modeOf(args.entry) and removeShare(args.entry)
  if not hadShare or value then
    handOff(holders)
    -- The first may have been woken to learn how long the lock stays closed.
    if hasLeft and value and string.find(value, 'v2-!', 1, true) == 1 then
      wakeFirst()
    end
    return 0
  end
  if args.closedForMs == '0' then
    holders.count = holders.count - 1
    keepShares()
    handOff(holders)
  else
    share('v2-!' .. string.sub(args.entry, 4), args.closedForMs)
    wakeFirst()
  end
  return 1
end
