--[[ Let one who shares a lock in again on a node that has lost it, while a majority has it still; never beside one who has the lock
  alone. A run after the deadline changes nothing.
  KEYS[1] lock: all who share it   KEYS[2] fence
  ARGV[1] owner, round and token   ARGV[2] last token that others have given   ARGV[3] lease in ms   ARGV[4] deadline in µs of
  the server's time
  returns 1 let in again | 0 somebody has the lock alone, or it is in, or past deadline ]]
--- @include now
if tonumber(now) > tonumber(ARGV[4]) then
  return 0
end
--- @include raise-fence
raiseFence(ARGV[2])
--- @include quorum-share
local held = redis.call('GET', KEYS[1]) or '*;'
if not isShared(held) then
  return 0
end
local nowMs = tonumber(string.sub(now, 1, -4))
local others, mine, ends = takeOut(held, string.match(ARGV[1], '^%S+ '))
if mine and ends > nowMs then
  return 0
end
share(others, ARGV[1], nowMs + ARGV[3], nowMs)
return 1
