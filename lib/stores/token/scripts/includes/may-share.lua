--- @include ./mode-of.lua
--- Returns whether the entry may share the lock with its sharers.
local function mayShare(sharers, entry)
  if sharers.count == 0 then
    return true
  end
  local mode = modeOf(entry)
  return mode == sharers.mode and (mode == '*' or sharers.count < tonumber(mode))
end
