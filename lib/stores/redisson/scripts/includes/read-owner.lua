--[[ Returns the owner of the lock: nil if it is free. Returns nil and an error if the hash is not an RLock. An RLock
  has one field, `<uuid>:<thread id>`. A ReadWriteLock of Redisson also has a field `mode`, and a map has fields of any
  name. A ReadWriteLock does not look for an RLock, and adds its own fields to the hash. ]]
local function readOwner()
  local fields = redis.call('HKEYS', keys.lock)
  if #fields == 0 or (#fields == 1 and string.find(fields[1], ':%-?%d+$')) then
    return fields[1]
  end
  local isReadWrite = redis.call('HEXISTS', keys.lock, 'mode') == 1
  local kind = isReadWrite and 'a ReadWriteLock of Redisson' or 'a hash but not a lock of Redisson'
  return nil, redis.error_reply('WRONGTYPE the key is ' .. kind)
end
