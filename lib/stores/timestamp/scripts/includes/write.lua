--- @include ./now-ms.lua
--[[ Writes an expiry and its owner. Both keys end at the same millisecond, by which readHolder() sees who wrote last.
  own      what the owner has written before, nil for a new lock
  isLater  whether the lease must not become shorter ]]
local function write(owner, own, isLater)
  local unitMs, ttlMs = tonumber(args.unitMs), tonumber(args.ttlMs)
  local value, valueAt, leaseMs = tonumber(args.expiry), nowMs + args.untilMs, ttlMs - unitMs
  local race = own and own.race
  if own then
    -- If the caller's clock was set back, those of the other clients were not.
    value = math.max(value, own.value + math.ceil((nowMs + leaseMs - own.valueAt) / unitMs))
    if isLater and value <= own.value then
      value, ttlMs = own.value, math.max(ttlMs, own.rest)
    end
    valueAt = own.valueAt + (value - own.value) * unitMs
  else
    -- Another client takes over when the loser's value is over, a lease after the loser has computed it. In the first
    -- half of the lease that is impossible, unless a GETSET was under way for as long, which happens to short leases.
    local isLong = leaseMs >= 1000
    local tolerance = isLong and math.floor(math.min(2000, leaseMs / 4) / unitMs) or 0
    local raceUntil = isLong and nowMs + leaseMs / 2 or 0
    race = string.format('%.0f %.0f %.0f', value - tolerance, tolerance, raceUntil)
  end
  local text = string.format('%.0f', value)
  local endsAt = string.format('%.0f', nowMs + ttlMs)
  if own then
    -- Out of memory, Redis refuses SET unless the script has written before.
    redis.call('DEL', keys.holder)
  end
  redis.call('SET', keys.lock, text, 'PXAT', endsAt)
  redis.call('SET', keys.holder, string.format('%s %s %.0f %s', owner, text, valueAt, race), 'PXAT', endsAt)
end
