--- @computed-keys
--[[ Iterates over the locks of a script for several: `for nth in eachLock(…) do`. In each turn, the keys and arguments
  that a script for one lock has name that lock. After the last turn they are as they were. The keys are grouped by
  kind, the arguments by lock.
  @param commonKeys how many keys stand before those of the locks
  @param keysOfLock how many keys each lock has
  @param commonArgs how many arguments stand before those of the locks
  @param argsOfLock how many arguments each lock has ]]
local eachLock = (function()
  local allKeys, allArgs = { unpack(KEYS) }, { unpack(ARGV) }
  return function(commonKeys, keysOfLock, commonArgs, argsOfLock)
    local count = (#allKeys - commonKeys) / keysOfLock
    local nth = 0
    return function()
      if nth == count then
        for i = 1, keysOfLock do
          KEYS[commonKeys + i] = allKeys[commonKeys + i]
        end
        for i = 1, argsOfLock do
          ARGV[commonArgs + i] = allArgs[commonArgs + i]
        end
        return nil
      end
      for i = 1, keysOfLock do
        KEYS[commonKeys + i] = allKeys[commonKeys + (i - 1) * count + nth + 1]
      end
      for i = 1, argsOfLock do
        ARGV[commonArgs + i] = allArgs[commonArgs + nth * argsOfLock + i]
      end
      nth = nth + 1
      return nth
    end
  end
end)()
