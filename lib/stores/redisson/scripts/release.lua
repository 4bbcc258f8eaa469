--[[ Releases a lock of Redisson if the owner still holds it, or keeps it closed. Both publish what Redisson publishes.
  A server that refuses to publish does not keep the lock from being released. Running twice is harmless. If the hash
  has other fields, only the owner's is removed: the rest is a lock of another kind.
  keys.lock         hash of hold counts by owner
  args.owner
  args.closedForMs  how long the lock stays closed, as nobody's. 0: it is free now
  args.channel      the waiters' channel
  args.sharded?     any value: the channel is sharded, as in a cluster, if the server has sharded channels
  returns 0 or more: released, the number of receivers | -1: released, but publishing was refused | -2: not held by the
  owner ]]
--- @include ./includes/publish.lua
if redis.call('HEXISTS', keys.lock, args.owner) == 0 then
  return -2
end
if #redis.call('HKEYS', keys.lock) > 1 then
  redis.call('HDEL', keys.lock, args.owner)
  return 0
end
redis.call('DEL', keys.lock)
if args.closedForMs ~= '0' then
  -- No owner has two colons.
  redis.call('HSET', keys.lock, args.owner .. ':0', 1)
  redis.call('PEXPIRE', keys.lock, args.closedForMs)
  -- The lock may expire without a message. All waiters must retry once, to wait by the new TTL. In Java this message
  -- wakes the threads that wait already. A thread that was refused just now receives the message below as soon as it
  -- waits.
  publish('1')
end
local receivers = publish('0')
return type(receivers) == 'number' and receivers or -1
