--- @include grant
--- @include sharers
--[[ Gives the lock to the first in the queue, and tells it; and so on with the next one, as long as they may share it. Whose
  instance nobody listens for is dead, and passed over. The receivers are counted before: if a message that was sent counted
  none, whoever got it would hold the lock beside the next one. Stops in front of the asker, who is answered, not told.
  Whoever wants one of another number of permits, be it the asker, loses its place, where it would keep out all behind it: it is
  told of a grant that is long over, cannot believe in that, asks, and hears why.
  `shard`, in a cluster, begins the channels with the lock's hash tag: only who listens at this node is counted and told.
  Answers whether nobody waits (before the asker) any more; also if something is refused, which must not keep the lock closed.
  KEYS[1] lock   KEYS[2] fence   KEYS[3] queue ]]
local function handOver(sharers, lease, tokens, now, asker, shard)
  while not sharers.excluded do
    local claim
    if sharers.count == 0 then
      claim = redis.pcall('ZPOPMIN', KEYS[3])[1]
    else
      -- Behind those who share the lock; where it gets it, too, it moves there by itself.
      claim = redis.pcall('ZRANGE', KEYS[3], sharers.count, sharers.count)[1]
    end
    if not claim then
      return true
    end
    local fits = admits(sharers, claim)
    if not fits and not differs(sharers, modeOf(claim)) then
      return false
    end
    if fits and claim == asker then
      return true
    end
    local channel = (shard or 'nestjs-redis-lock:') .. string.match(claim, '^[^:]*')
    local listeners = redis.pcall('PUBSUB', shard and 'SHARDNUMSUB' or 'NUMSUB', channel)
    if listeners.err then
      return true
    end
    local heard, token = listeners[2] > 0, '0'
    if fits and heard then
      local granted
      granted, token = pcall(grant, claim, lease, tokens, now)
      if not granted then
        return true
      end
      admitted(sharers, claim)
    elseif sharers.count > 0 and redis.pcall('ZREM', KEYS[3], claim) ~= 1 then
      return true
    end
    if heard then
      local owner, mode = string.match(claim, '^(%S*)(.*)')
      local terms = { owner, token, sharers.mode and '1' or tokens, fits and now or '0', lease }
      local message = table.concat(terms, ' ') .. mode
      if shard then
        redis.pcall('SPUBLISH', channel, message)
      else
        redis.pcall('PUBLISH', channel, message)
      end
    end
  end
  return false
end
