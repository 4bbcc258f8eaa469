local owner = redis.call('HKEYS', KEYS[1])[1]
if not owner then
return nil
end
return { owner, redis.call('PTTL', KEYS[1]), KEYS[2] and redis.call('GET', KEYS[2]) }