--[[ Acquires a lock of Redisson for the caller if it is free, and increments its fencing token if it has one.
  If the caller holds the lock already, its full lease is restored, and its hold count and token stay as they are.
  A key of another kind is an error and stays as it is.
  After the deadline nothing changes: a delayed request must not lock for a caller that has given up.
  keys.lock      hash of hold counts by owner
  keys.token?    the token granted last
  args.owner
  args.leaseMs
  args.deadline  µs, server time
  returns {1, token or 0, now}: granted | {0, remaining, now}: held by another owner | {-1, 0, now}: past the deadline
  `remaining` is the rest of the holder's lease in ms, or -1. `now` is the server time in µs. ]]
--- @include ../../../redis/scripts/includes/now.lua
--- @include ./includes/is-alone.lua
--- @include ./includes/kind-error.lua
if now > args.deadline then
  return { -1, 0, now }
end

if redis.call('EXISTS', keys.lock) == 0 then
  local token = keys.token and redis.call('INCR', keys.token) or 0
  redis.call('HSET', keys.lock, args.owner, 1)
  redis.call('PEXPIRE', keys.lock, args.leaseMs)
  return { 1, token, now }
end

local remaining = redis.call('PTTL', keys.lock)
if not isAlone(args.owner) then
  return kindError() or { 0, remaining, now }
end
if remaining < tonumber(args.leaseMs) then
  redis.call('PEXPIRE', keys.lock, args.leaseMs)
end
-- Nobody increments the token while the caller holds the lock, but somebody may have deleted it.
return { 1, keys.token and (redis.call('GET', keys.token) or redis.call('INCR', keys.token)) or 0, now }
