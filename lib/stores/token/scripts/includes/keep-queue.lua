--[[ Keeps the queue key for at least `ms`, and the ends of the shares in it as they are.
  Returns the rest of the key's life. A new life is longer than `ms`, because it rewrites every share. ]]
local function keepQueue(ms)
  local left = redis.call('PTTL', keys.queue)
  if left >= tonumber(ms) then
    return left
  end
  local longer = 2 * math.max(ms, 60000)
  local shares = redis.call('ZRANGE', keys.queue, '-inf', '(0', 'BYSCORE', 'WITHSCORES')
  for i = 1, #shares, 2 do
    redis.call('ZADD', keys.queue, shares[i + 1] + longer - left, shares[i])
  end
  redis.call('PEXPIRE', keys.queue, longer)
  return longer
end
