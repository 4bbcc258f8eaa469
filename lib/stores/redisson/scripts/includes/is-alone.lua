--[[ Returns whether the owner holds the lock, and nobody else has written the hash.
  A ReadWriteLock of Redisson does not look for an RLock and adds its own fields to the hash. ]]
local function isAlone(owner)
  return redis.call('HEXISTS', keys.lock, owner) == 1 and #redis.call('HKEYS', keys.lock) == 1
end
