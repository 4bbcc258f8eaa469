redis.call('ZADD', KEYS[1], 'XX', '0', ARGV[1])
redis.call('ZRANGE', KEYS[1], '0', '0')
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZPOPMIN', KEYS[1], '0')
if ARGV[2] then
local sharded = redis.call('PUBSUB', 'SHARDNUMSUB', ARGV[1])
redis.call('SPUBLISH', ARGV[1], '')
return sharded[2]
end
local subscribers = redis.call('PUBSUB', 'NUMSUB', ARGV[1])
redis.call('PUBLISH', ARGV[1], '')
return subscribers[2]