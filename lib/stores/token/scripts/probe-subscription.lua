--[[ Publishes an empty message to a channel over the connection that sends the acquire requests. An instance that
  receives its own message can be handed locks. Before that, the script runs the commands of a queue without any effect:
  a user that may not run them is refused here, not in the middle of a handoff.
  keys.queue    queue of a lock
  args.channel
  args.sharded? any value: the channel is sharded, as in a cluster
  returns the number of subscribers ]]
redis.call('ZADD', keys.queue, 'XX', '0', args.channel)
redis.call('ZRANGE', keys.queue, '0', '0')
redis.call('ZREM', keys.queue, args.channel)
redis.call('ZPOPMIN', keys.queue, '0')
if args.sharded then
  local sharded = redis.call('PUBSUB', 'SHARDNUMSUB', args.channel)
  redis.call('SPUBLISH', args.channel, '')
  return sharded[2]
end
local subscribers = redis.call('PUBSUB', 'NUMSUB', args.channel)
redis.call('PUBLISH', args.channel, '')
return subscribers[2]
