--[[ How many locks the script may still hand to further sharers, because Redis runs one script at a time: 64 handoffs
  take about a millisecond. `more` is set if the last handoff left sharers behind. ]]
local handoffs = { left = 64, more = false }
