--[[ End a lock of Redisson's if it is still the owner's, now or after the rest of its minimum hold. Either is told, as
  Redisson tells it; a server that refuses to tell must not keep the lock closed. Running twice harms nothing.
  KEYS[1] lock: a hash of hold counts by owners
  ARGV[1] owner   ARGV[2] keep it closed for so many ms, 0 to end it now   ARGV[3] channel of those who wait
  ARGV[4] left out, or anything: the channel is sharded, as in a cluster, where the server has such channels
  returns 0 or more: ended, and how many were told | -1 ended, but telling was refused | -2 not the owner's ]]
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return -2
end
local function tell(message)
  local told = ARGV[4] and redis.pcall('SPUBLISH', ARGV[3], message)
  -- Redis 6.2 has none, and Redisson does without: what is published is told on all nodes.
  if not told or (type(told) == 'table' and string.find(told.err, 'nknown')) then
    told = redis.pcall('PUBLISH', ARGV[3], message)
  end
  return told
end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
else
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  -- It may expire without a word: all who wait have to ask once more, to wait by the new TTL. In Java this wakes the threads
  -- that wait already; one that was just refused finds the message below when it begins to.
  tell('1')
end
local told = tell('0')
return type(told) == 'number' and told or -1
