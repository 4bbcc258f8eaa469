--- @include ./marker.lua
--- Lets the marker of a lock that is shared last as long as its longest share, and removes it without one.
local function keepShares()
  local left = redis.call('PTTL', keys.holders)
  if left <= 0 then
    redis.call('DEL', keys.lock)
  else
    redis.call('SET', keys.lock, marker, 'PX', left)
  end
end
