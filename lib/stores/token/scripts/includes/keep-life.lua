--[[ Lets the key of the shares live until the last of them ends.
  @param time the time of shares, from before they were changed ]]
local function keepLife(time)
  local last = redis.call('ZRANGE', keys.holders, -1, -1, 'WITHSCORES')[2]
  if last then
    redis.call('PEXPIRE', keys.holders, last - time)
  end
end
