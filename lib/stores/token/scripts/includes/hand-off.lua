--- @include ./steps.lua
--- @include ./mode-of.lua
--- @include ./fits.lua
--- @include ./permits-differ.lua
--- @include ./is-listening.lua
--- @include ./grant.lua
--- @include ./wake.lua
--[[ Grants the lock to the first live entries of the queue, as far as they fit, each for the short lease `handoffMs`.
  Entries of instances that do not listen are removed. So are entries with another number of permits than the holders:
  they would block the queue, and learn why when they ask again. Returns true if no entry is left before the caller.

  Readers of version 1 stand in the queue, with scores below 0, and exclude everybody until their leases are over. Other
  entries of that version are removed: their instances ask again. ]]
local function handOff(holders, caller)
  while holders.count == 0 or holders.mode do
    local first = redis.call('ZRANGE', keys.queue, 0, 0, 'WITHSCORES')
    local entry = first[1]
    if not entry then
      return true
    end
    local isNext = fits(holders, modeOf(entry))
    if isNext and entry == caller then
      return true
    end
    local isOurs = string.find(entry, 'v2-', 1, true) == 1
    if not isOurs and tonumber(first[2]) <= 0 and -first[2] > 1e13 - redis.call('PTTL', keys.queue) then
      holders.count, holders.mode, holders.value = 1, nil, entry
      return false
    end
    if isOurs and not isNext and not permitsDiffer(holders, modeOf(entry)) then
      return false
    end
    local listening = isOurs and isListening(entry)
    if listening == nil then
      return true
    end
    if steps == 0 then
      return false
    end
    steps = steps - 1
    redis.call('ZREM', keys.queue, entry)
    if listening then
      if isNext then
        grant(holders, entry, args.handoffMs)
      end
      wake(entry)
    end
  end
  return false
end
