--[[ Returns the time by which shares of the lock end: how much of a key life of 1e13 ms is over. 1e13 ms is longer than
  any key lives. The rest of a key's life moves with the key to another node of a cluster. By the clock of that node, a
  share could end at once or minutes late. ]]
local function shareTime()
  return 1e13 - redis.call('PTTL', keys.queue)
end
