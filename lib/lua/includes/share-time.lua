--[[ Shares of the lock end by the time of the key that they are in: by how much of a life of 1e13 ms, longer than any, is over. What
  is left of its life comes along with a key whose slot moves; by the next node's clock a share could be over at once, or minutes
  late.
  KEYS[3] queue, and before it those who share the lock ]]
local function shareTime()
  return 1e13 - redis.call('PTTL', KEYS[3])
end
