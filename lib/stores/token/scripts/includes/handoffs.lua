--[[ How many locks the script may still hand to further sharers, and how many entries it may remove from queues without
  a grant, because Redis runs one script at a time: 64 handoffs or 256 removals take about a millisecond. `more` is set
  if the last handoff has left sharers or such entries behind. ]]
local handoffs = { left = 64, removals = 256, more = false }
