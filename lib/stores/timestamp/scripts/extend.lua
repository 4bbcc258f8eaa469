--[[ Replaces the lock's expiry if the owner still holds the lock. Never shortens a lease.
  keys.lock
  keys.holder    the owner that acquired the lock by a script, and what it wrote
  args.owner
  args.localNow  the caller's clock, in its unit
  args.expiry    the new value, in that unit
  args.untilMs   the time until the expiry by the caller's clock
  args.ttlMs     TTL of both keys
  args.unitMs    1 or 1000
  returns 1: renewed | 0: not held by the owner ]]
--- @include ./includes/read-own.lua
--- @include ./includes/write.lua
local own = readOwn()
if not own then
  return 0
end
write(args.owner, own, true)
return 1
