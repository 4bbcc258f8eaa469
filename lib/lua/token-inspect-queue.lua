--[[ Tell who shares the lock, and who waits for it, first come first; nobody where that may not be asked. Changes nothing.
  KEYS[1] queue: claims by their tickets, and before it those who share the lock, by the ends of their leases
  returns {claim, remaining ms of a sharer, 0 of who waits, …} ]]
--- @include now
local queue = redis.pcall('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
if queue.err then
  return {}
end
for i = 2, #queue, 2 do
  queue[i] = tonumber(queue[i]) < 0 and math.max(-queue[i] - string.sub(now, 1, -4), -1) or 0
end
return queue
