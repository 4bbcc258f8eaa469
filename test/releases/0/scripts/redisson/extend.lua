local function isAlone(owner)
return redis.call('HEXISTS', KEYS[1], owner) == 1 and #redis.call('HKEYS', KEYS[1]) == 1
end
if not isAlone(ARGV[1]) then
return 0
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1