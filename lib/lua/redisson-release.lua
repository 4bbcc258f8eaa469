--[[ End a lock of Redisson's if it is still the owner's, now or after the rest of its minimum hold. An end now is told to
  all who wait, as Redisson tells it; a server that refuses to tell must not keep the lock closed. Running twice harms nothing.
  KEYS[1] lock: a hash of hold counts by owners
  ARGV[1] owner   ARGV[2] keep it closed for so many ms, 0 to end it now   ARGV[3] channel of those who wait
  returns 0 or more: ended, and how many were told | -1 ended, but telling was refused | -2 not the owner's ]]
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return -2
end
if ARGV[2] ~= '0' then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 0
end
redis.call('DEL', KEYS[1])
local told = redis.pcall('PUBLISH', ARGV[3], '0')
return type(told) == 'number' and told or -1
