--- @computed-keys
--[[ Iterates over the locks of a script that is given the fence and then lock and queue of each: `for nth in eachLock
  do`. In each turn, KEYS[2] and KEYS[3] name the lock and the queue of that turn. ]]
local eachLock = (function()
  local all = { unpack(KEYS) }
  return function(_, last)
    local nth = (last or 0) + 1
    KEYS[2], KEYS[3] = all[nth * 2], all[nth * 2 + 1]
    return KEYS[2] and nth
  end
end)()
