--- @include ./wake.lua
--- Lets the first in the queue learn how long the lock stays closed.
local function wakeFirst()
  local entry = redis.call('ZRANGE', keys.queue, 0, 0)[1]
  if entry then
    wake(entry)
  end
end
