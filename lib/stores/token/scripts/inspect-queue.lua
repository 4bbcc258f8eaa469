--[[ Returns the entries that wait for a lock, in order. Changes nothing.
  keys.queue
  returns {entry, …} ]]
return redis.call('ZRANGE', keys.queue, 0, -1)
