--[[ Acquires the lock if there is none, or if its value is an expiry that is over by the clients' clocks.
  Only then is the old value replaced. A value that is not such an expiry is never replaced.
  After the deadline nothing changes: a delayed request must not lock for a caller that has given up.
  A request that was sent twice gets the same reply twice.
  keys.lock
  keys.holder    the owner that acquired the lock by a script
  args.owner
  args.localNow  the caller's clock
  args.expiry    the new value
  args.ttlMs     TTL of both keys
  args.unit      unit of localNow and expiry: s or ms
  args.deadline  µs, server time
  returns {1, now}: acquired | {2, now}: taken over after expiry | {0, now, value, owner}: held | {-1, now}: past the
  deadline
  `owner` is that of the last script, if nobody has written the key since.
  `now` is the server time in µs. ]]
--- @include ../../../redis/scripts/includes/now.lua
--- @include ./includes/write.lua
--- @include ./includes/is-unchanged.lua
if now > args.deadline then
  return { -1, now }
end

local held = redis.call('GET', keys.lock)
if held == args.expiry and redis.call('GET', keys.holder) == args.owner and isUnchanged() then
  return { 1, now }
end
if held then
  local expiry = string.match(held, '^%d+%.?%d*$') and tonumber(held)
  -- A value in seconds, read as milliseconds, would have expired in 1970.
  local foreign = args.unit == 'ms' and expiry and expiry >= 1e9 and expiry < 1e10
  if not expiry or foreign or tonumber(args.localNow) <= expiry then
    local owner = redis.call('GET', keys.holder)
    return { 0, now, held, owner and isUnchanged() and owner or nil }
  end
end
write(args.expiry, args.owner, args.ttlMs, now)
return { held and 2 or 1, now }
