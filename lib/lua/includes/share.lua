--- @include share-time
--[[ Lets the key last for so many ms at least, with shares that end when they would have; longer than that, since each of them is
  written anew. Answers what is left of its life.
  KEYS[3] queue, and before it those who share the lock ]]
local function outlast(ms)
  local left = redis.call('PTTL', KEYS[3])
  if left >= tonumber(ms) then
    return left
  end
  local longer = 2 * math.max(ms, 60000)
  local shares = redis.call('ZRANGE', KEYS[3], '-inf', '(0', 'BYSCORE', 'WITHSCORES')
  for i = 1, #shares, 2 do
    redis.call('ZADD', KEYS[3], shares[i + 1] + longer - left, shares[i])
  end
  redis.call('PEXPIRE', KEYS[3], longer)
  return longer
end

--[[ Lets the claim share the lock for a lease from now on; one that it has never gets shorter. It is always a write, even of what is
  there already. ]]
local function share(claim, lease)
  redis.call('ZADD', KEYS[3], 'NX', 0, claim)
  local left = outlast(lease)
  if redis.call('ZADD', KEYS[3], 'LT', 'CH', -(1e13 - left + lease), claim) == 0 then
    redis.call('PEXPIRE', KEYS[3], left)
  end
end
