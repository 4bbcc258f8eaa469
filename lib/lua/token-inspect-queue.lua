--[[ Tell who shares the lock, and who waits for it, first come first; nobody where that may not be asked. Changes nothing.
  KEYS[1] queue: claims by their tickets, and before it those who share the lock, by the ends of their leases
  returns {claim, remaining ms of a sharer or -1 if that is over, 0 of who waits, …} ]]
--- @include share-time at KEYS[1]
local queue = redis.pcall('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
if queue.err then
  return {}
end
for i = 2, #queue, 2 do
  local score = tonumber(queue[i])
  local remaining = -score - shareTime()
  queue[i] = score > 0 and 0 or remaining > 0 and remaining or -1
end
return queue
