local held = redis.call('GET', KEYS[1])
if not held then
return nil
end
return { held, redis.call('PTTL', KEYS[1]) }