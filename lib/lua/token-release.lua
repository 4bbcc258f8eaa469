--[[ End the claim's lock if it is held still, now or after the rest of its minimum hold: hand it to the first in the queue, or
  free it. Otherwise only its place in the queue ends; a lock that is free by then, or may be shared, goes to whoever is first,
  too. Running twice harms nothing.
  KEYS[1] lock   KEYS[2] fence   KEYS[3] queue, and before it those who share the lock
  ARGV[1] claim   ARGV[2] keep it closed for so many ms, 0 to end it now   ARGV[3] number of tokens to set aside for the next
  ARGV[4] lease in ms of a lock that is handed over   ARGV[5] in a cluster, what the channels of all who wait begin with
  returns 1 ended | 0 not the claim's ]]
local held = redis.call('GET', KEYS[1])
local ours = ARGV[1] .. ' '
local alone = held and string.sub(held, 1, #ours) == ours
if alone and ARGV[2] ~= '0' then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if alone and redis.call('EXISTS', KEYS[3]) == 0 then
  redis.call('DEL', KEYS[1])
  return 1
end
if held and not alone then
  redis.pcall('ZREM', KEYS[3], ARGV[1])
  return 0
end

--- @include now
--- @include hand-over
local sharers, ended = { count = 0 }, 1
if not alone then
  local mode = modeOf(ARGV[1])
  sharers = sharersNow(mode)
  local shares = mode and tonumber(redis.call('ZSCORE', KEYS[3], ARGV[1]) or 0) < 0
  redis.pcall('ZREM', KEYS[3], ARGV[1])
  if shares and ARGV[2] ~= '0' then
    share(ARGV[1], ARGV[2])
    return 1
  end
  sharers.count = sharers.count - (shares and 1 or 0)
  ended = shares and 1 or 0
end
handOver(sharers, ARGV[4], ARGV[3], now, nil, ARGV[5])
if alone and not sharers.excluded then
  redis.call('DEL', KEYS[1])
end
return ended
