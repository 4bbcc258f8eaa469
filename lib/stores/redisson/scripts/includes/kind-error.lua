--[[ Returns nil if the hash is an RLock: one field `<uuid>:<threadId>`. Otherwise returns an error.
  A ReadWriteLock of Redisson has a field `mode`, and a map has fields of any name. ]]
local function kindError()
  if redis.call('HEXISTS', keys.lock, 'mode') == 1 then
    return redis.error_reply('WRONGTYPE the key is a ReadWriteLock of Redisson')
  end
  local fields = redis.call('HKEYS', keys.lock)
  if #fields > 1 or not string.find(fields[1], ':%d+$') then
    return redis.error_reply('WRONGTYPE the key is a hash but not a lock of Redisson')
  end
end
