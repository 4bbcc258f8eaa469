--[[ Send an empty message to the subscribers of a channel, over the connection that asks for locks: an instance that hears
  itself can be handed locks. Before that, try without any effect what a queue takes, so that a user who may not do it is
  refused here, and not in the middle of a hand-over.
  KEYS[1] queue of a lock
  ARGV[1] channel   ARGV[2] in a cluster, anything: the channel is sharded
  returns how many were there ]]
redis.call('ZADD', KEYS[1], 'XX', '0', ARGV[1])
redis.call('ZRANGE', KEYS[1], '0', '0')
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZPOPMIN', KEYS[1], '0')
if ARGV[2] then
  local sharded = redis.call('PUBSUB', 'SHARDNUMSUB', ARGV[1])
  redis.call('SPUBLISH', ARGV[1], '')
  return sharded[2]
end
local listeners = redis.call('PUBSUB', 'NUMSUB', ARGV[1])
redis.call('PUBLISH', ARGV[1], '')
return listeners[2]
