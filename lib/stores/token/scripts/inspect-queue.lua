--[[ Returns the sharers of the lock and the entries that wait for it, in order. Returns nothing if the queue may not be
  read. Changes nothing.
  keys.queue  entries by ticket, preceded by the sharers by the ends of their leases
  returns {entry, remaining ms of a sharer, -1 if its lease is over, 0 for a waiter, …} ]]
--- @include ./includes/share-time.lua
local queue = redis.pcall('ZRANGE', keys.queue, 0, -1, 'WITHSCORES')
if queue.err then
  return {}
end
local time = shareTime()
for i = 2, #queue, 2 do
  local score = tonumber(queue[i])
  local remaining = -score - time
  queue[i] = score > 0 and 0 or remaining > 0 and remaining or -1
end
return queue
