--[[ Lets the claim share the lock for a lease from now on; one that it has never gets shorter.
  KEYS[3] queue, and before it those who share the lock ]]
local function share(claim, lease, now)
  local ends = -(string.sub(now, 1, -4) + lease)
  redis.call('ZADD', KEYS[3], 'LT', ends, claim)
  redis.call('PEXPIRE', KEYS[3], math.max(redis.call('PTTL', KEYS[3]), tonumber(lease)))
end
