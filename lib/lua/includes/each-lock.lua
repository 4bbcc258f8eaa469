--[[ Lets what comes behind it, which knows one lock by KEYS, be run for each of several, one after the other: the script is given
  the fence that they share, and then lock and queue of each. ]]
local all, KEYS = KEYS, { [2] = KEYS[1] }
local function turnTo(nth)
  KEYS[1], KEYS[3] = all[nth * 2], all[nth * 2 + 1]
end
