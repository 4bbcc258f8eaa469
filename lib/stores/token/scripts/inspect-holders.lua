--[[ Returns the entries that share a lock. Changes nothing.
  keys.holders
  returns {entry, ms until its lease ends, …} ]]
--- @include ./includes/now-ms.lua
local holders = redis.call('ZRANGEBYSCORE', keys.holders, string.format('(%.0f', nowMs), '+inf', 'WITHSCORES')
for i = 2, #holders, 2 do
  holders[i] = holders[i] - nowMs
end
return holders
