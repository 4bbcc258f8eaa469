--- @include grant
--[[ Gives the lock to the first in the queue, and tells it; whose instance nobody listens for is dead, and passed over. The
  receivers are counted before: if a message that was sent counted none, whoever got it would hold the lock beside the next
  one. Stops in front of the asker, who is answered, not told.
  `shard`, in a cluster, begins the channels with the lock's hash tag: only who listens at this node is counted and told.
  Answers who is next; nil if nobody is, or if something is refused, which must not keep the lock closed.
  KEYS[1] lock   KEYS[2] fence   KEYS[3] queue ]]
local function handOver(lease, tokens, now, asker, shard)
  while true do
    local owner = redis.pcall('ZPOPMIN', KEYS[3])[1]
    if not owner or owner == asker then
      return owner
    end
    local channel = (shard or 'nestjs-redis-lock:') .. string.match(owner, '^[^:]*')
    local listeners = redis.pcall('PUBSUB', shard and 'SHARDNUMSUB' or 'NUMSUB', channel)
    if listeners.err then
      return nil
    end
    if listeners[2] > 0 then
      local granted, token = pcall(grant, owner, lease, tokens, now)
      if not granted then
        return nil
      end
      local message = table.concat({ owner, token, tokens, now, lease }, ' ')
      if shard then
        redis.pcall('SPUBLISH', channel, message)
      else
        redis.pcall('PUBLISH', channel, message)
      end
      return owner
    end
  end
end
