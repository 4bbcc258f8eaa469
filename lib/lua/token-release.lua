--[[ End the lock if it is still the owner's, now or after the rest of its minimum hold: hand it to the first in the queue, or
  free it. Otherwise only the owner's place in the queue ends; a lock that is free by then goes to whoever is first, too.
  Running twice harms nothing.
  KEYS[1] lock   KEYS[2] fence   KEYS[3] queue
  ARGV[1] owner   ARGV[2] keep it closed for so many ms, 0 to end it now   ARGV[3] number of tokens to set aside for the next
  ARGV[4] lease in ms of a lock that is handed over   ARGV[5] in a cluster, what the channels of all who wait begin with
  returns 1 ended | 0 not the owner's ]]
local held = redis.call('GET', KEYS[1])
local ours = ARGV[1] .. ' '
local ended = 1
if not held or string.sub(held, 1, #ours) ~= ours then
  redis.pcall('ZREM', KEYS[3], ARGV[1])
  if held then
    return 0
  end
  ended = 0
elseif ARGV[2] ~= '0' then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end

if redis.call('EXISTS', KEYS[3]) == 1 then
--- @include now
--- @include hand-over
  if handOver(ARGV[4], ARGV[3], now, nil, ARGV[5]) then
    return ended
  end
end
redis.call('DEL', KEYS[1])
return ended
