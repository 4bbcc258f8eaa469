--- @computed-keys
--[[ Iterates over the locks of a script that is given the fence and then lock and queue of each: `for nth in eachLock
  do`. KEYS[2] and KEYS[3] are inserted. In each turn, they name the lock and the queue of that turn. ]]
table.insert(KEYS, 2, '')
table.insert(KEYS, 3, '')
local function eachLock(_, last)
  local nth = (last or 0) + 1
  KEYS[2], KEYS[3] = KEYS[nth * 2 + 2], KEYS[nth * 2 + 3]
  return KEYS[2] and nth
end
