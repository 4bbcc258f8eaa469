--[[ Acquires the lock if there is none, or if its value is an expiry that is over by the clients' clocks. Only then is
  the old value replaced. A value that is not such an expiry is never replaced.
  If the caller holds the lock already, its full lease is restored.
  keys.lock
  keys.holder    the owner that acquired the lock by a script, and what it wrote
  args.owner
  args.localNow  the caller's clock, in its unit
  args.expiry    the new value, in that unit
  args.untilMs   the time until the expiry by the caller's clock
  args.ttlMs     TTL of both keys
  args.unitMs    1 or 1000
  returns 1: acquired | {value, owner}: held. `owner` is that of the last script, if it still holds the lock ]]
--- @include ./includes/read-own.lua
--- @include ./includes/read-holder.lua
--- @include ./includes/write.lua
local own = readOwn()
local held = not own and redis.call('GET', keys.lock)
if held then
  local expiry = string.match(held, '^%d+%.?%d*$') and tonumber(held)
  -- A value in seconds, read as milliseconds, would have expired in 1970.
  local isForeign = args.unitMs == '1' and expiry and expiry >= 1e9 and expiry < 1e10
  if not expiry or isForeign or tonumber(args.localNow) <= expiry then
    local holder = readHolder()
    return { held, holder and holder.owner }
  end
end
write(args.owner, own, true)
return 1
