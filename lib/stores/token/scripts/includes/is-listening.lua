--- Returns whether the instance of an entry is subscribed at this server. Returns nil if this user may not ask.
local function isListening(entry)
  local channel = args.channels .. string.match(entry, '^[^:]*')
  local counted
  if args.sharded == '1' then
    counted = redis.pcall('PUBSUB', 'SHARDNUMSUB', channel)
  else
    counted = redis.pcall('PUBSUB', 'NUMSUB', channel)
  end
  if counted.err then
    return nil
  end
  return counted[2] > 0
end
