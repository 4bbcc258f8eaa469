--[[ Returns what is added to the ticket of a waiter that is prompted to repeat its request: the current time as a
  fraction, in steps of 62.5 ms that recur after 64 s. Its next request sets its score to its ticket again. ]]
local function promptedAt(now)
  return (math.floor(now / 62500) % 1023 + 1) / 1024
end
