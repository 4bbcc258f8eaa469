--[[ How many entries the script may still take from queues, because Redis runs one script at a time: 64 handoffs take
  about a millisecond. `more` is set if entries are left that could get a lock. ]]
local handoffs = { left = 64, more = false }
