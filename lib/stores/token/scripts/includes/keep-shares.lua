--- @include ./now-ms.lua
--- @include ./marker.lua
--- Lets both keys of a lock that is shared last as long as its longest share, and removes the marker without one.
local function keepShares()
  local last = redis.call('ZRANGE', keys.holders, -1, -1, 'WITHSCORES')[2]
  -- A run that has removed no share that is over may find one here.
  local left = last and last - nowMs or 0
  if left <= 0 then
    redis.call('DEL', keys.lock)
  else
    redis.call('PEXPIRE', keys.holders, left)
    redis.call('SET', keys.lock, marker, 'PX', left)
  end
end
