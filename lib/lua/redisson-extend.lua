--[[ Give a lock of Redisson's a new lease if it is still the owner's; a lease never gets shorter.
  KEYS[1] lock: a hash of hold counts by owners
  ARGV[1] owner   ARGV[2] lease in ms
  returns 1 renewed | 0 not the owner's ]]
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
