--[[ How many locks the script may still hand to further sharers, how many entries it may remove from queues without a
  grant, and how many waiters it may prompt, because Redis runs one script at a time: 64 handoffs or 256 removals take
  about a millisecond. `more` is set if the last handoff has left sharers or entries to remove behind. ]]
local handoffs = { left = 64, removals = 256, prompts = 1000, more = false }
