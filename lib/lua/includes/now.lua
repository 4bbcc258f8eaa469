--[[ The server's time in µs: sixteen digits until the year 2286, so that strings compare as their numbers do, which costs
  less than making numbers of them and never loses a digit. ]]
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
