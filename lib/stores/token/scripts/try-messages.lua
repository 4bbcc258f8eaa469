--[[ Finds out whether this user may do what wakes waiters: count subscribers, and publish. The message is empty, which
  its receiver ignores.
  keys.slot     a key in the slot of the channel: some proxies refuse a script without a key
  args.channel  a channel of the instance
  args.sharded  1: the channels are sharded, as in a cluster, 0: they are not
  returns nil: it may | {the command that fails, its error} ]]
local counted, published
if args.sharded == '1' then
  counted = redis.pcall('PUBSUB', 'SHARDNUMSUB', args.channel)
  published = redis.pcall('SPUBLISH', args.channel, '')
else
  counted = redis.pcall('PUBSUB', 'NUMSUB', args.channel)
  published = redis.pcall('PUBLISH', args.channel, '')
end
if counted.err then
  return { 'PUBSUB', counted.err }
end
if type(published) == 'table' then
  return { args.sharded == '1' and 'SPUBLISH' or 'PUBLISH', published.err }
end
return nil
