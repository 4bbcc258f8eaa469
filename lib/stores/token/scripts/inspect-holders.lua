--[[ Returns the entries that share a lock. Changes nothing.
  keys.holders
  returns {entry, ms until its lease ends, …} ]]
--- @include ./includes/share-time.lua
local time = shareTime()
local holders = redis.call('ZRANGEBYSCORE', keys.holders, string.format('(%.0f', time), '+inf', 'WITHSCORES')
for i = 2, #holders, 2 do
  holders[i] = holders[i] - time
end
return holders
