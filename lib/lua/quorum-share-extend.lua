--[[ Give one who shares a node's lock a new lease, if its own is not over; a lease never gets shorter. Tells what is needed to let
  it in again on nodes that have lost it.
  KEYS[1] lock: all who share it   KEYS[2] fence
  ARGV[1] owner   ARGV[2] lease in ms
  returns {owner, round and token, last token given or 0} renewed | 0 somebody has the lock alone | -1 its lease is over ]]
--- @include quorum-share
local held = redis.call('GET', KEYS[1]) or '*;'
if not isShared(held) then
  return 0
end

--- @include now
local nowMs = tonumber(string.sub(now, 1, -4))
local others, mine, ends = takeOut(held, ARGV[1] .. ' ')
if not mine or ends <= nowMs then
  return -1
end
share(others, mine, math.max(ends, nowMs + ARGV[2]), nowMs)
return { mine, redis.call('GET', KEYS[2]) or '0' }
