--- @include ./mode-of.lua
--- Counts one more sharer if the entry has a mode. Otherwise excludes all other entries.
local function addHolder(sharers, entry)
  sharers.mode = modeOf(entry)
  sharers.count = sharers.count + 1
  sharers.excluded = not sharers.mode
end
