--- Publishes a message to the waiters, as Redisson does. Returns the number of receivers, or an error.
local function publish(message)
  local receivers = args.sharded and redis.pcall('SPUBLISH', args.channel, message)
  -- Redis 6.2 has no SPUBLISH. Redisson then publishes to all nodes.
  if not receivers or (type(receivers) == 'table' and string.find(receivers.err, 'nknown')) then
    receivers = redis.pcall('PUBLISH', args.channel, message)
  end
  return receivers
end
