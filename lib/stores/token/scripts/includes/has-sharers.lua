--[[ Returns whether the lock is shared. Sharers precede waiters in the queue. A sharer's score is the negative end of
  its lease in ms of the key's time. A waiter's score is its ticket, which is positive. One key holds both, because a
  cluster that is moving a slot puts off commands on keys that do not exist. ]]
local function hasSharers()
  if redis.call('EXISTS', keys.queue) == 0 then
    return false
  end
  local first = redis.pcall('ZRANGE', keys.queue, 0, 0, 'WITHSCORES')
  if first.err then
    return redis.call('ZCOUNT', keys.queue, '-inf', '(0') > 0
  end
  return tonumber(first[2]) <= 0
end
