--- @include ./now-ms.lua
--[[ Returns the time by which shares of the lock end. Their key lives until the last of them ends. The rest of its life
  moves with it to another node of a cluster, by whose clock a share could end at once, or minutes late. ]]
local function shareTime()
  local last = redis.call('ZRANGE', keys.holders, -1, -1, 'WITHSCORES')[2]
  return last and last - redis.call('PTTL', keys.holders) or nowMs
end
