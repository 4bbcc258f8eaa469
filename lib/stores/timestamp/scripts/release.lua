--[[ Releases the lock if the owner still holds it, or keeps it closed. Otherwise the key may be another client's and
  stays as it is. Running twice is harmless.
  keys.lock
  keys.holder    the owner that acquired the lock by a script, and what it wrote
  args.owner
  args.localNow  the caller's clock, in its unit
  args.expiry    until when the lock stays closed, as nobody's
  args.untilMs   the time until the expiry by the caller's clock
  args.ttlMs     TTL of both keys. 0: the lock is free now
  args.unitMs    1 or 1000
  returns 1: released | 0: not held by the owner ]]
--- @include ./includes/read-own.lua
--- @include ./includes/write.lua
local own = readOwn()
if not own then
  return 0
end
if args.ttlMs == '0' then
  redis.call('DEL', keys.lock, keys.holder)
else
  -- No owner has two colons.
  write(args.owner .. ':0', own, false)
end
return 1
