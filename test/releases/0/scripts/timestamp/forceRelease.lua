if redis.call('GET', KEYS[1]) ~= ARGV[1] or (redis.call('GET', KEYS[2]) or '') ~= ARGV[2] then
return 0
end
redis.call('DEL', KEYS[1], KEYS[2])
return 1