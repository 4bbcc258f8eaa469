--- @include ./steps.lua
--- @include ./mode-of.lua
--- @include ./fits.lua
--- @include ./permits-differ.lua
--- @include ./is-listening.lua
--- @include ./grant.lua
--- @include ./wake.lua
--[[ Grants the lock to the first live entries of the queue, as far as they fit, each for the short lease `handoffMs`.
  Entries of instances that do not listen are removed. So are entries with another number of permits than the holders:
  they would block the queue, and learn why when they ask again. Returns true if no entry is left before the caller. ]]
local function handOff(holders, caller)
  while holders.count == 0 or holders.mode do
    local entry = redis.call('ZRANGE', keys.queue, 0, 0)[1]
    if not entry then
      return true
    end
    local isNext = fits(holders, modeOf(entry))
    if isNext and entry == caller then
      return true
    end
    if not isNext and not permitsDiffer(holders, modeOf(entry)) then
      return false
    end
    local listening = isListening(entry)
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
