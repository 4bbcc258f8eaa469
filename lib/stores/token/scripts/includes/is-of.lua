--- Returns whether the value of a lock is that of an exclusive entry.
local function isOf(value, entry)
  return string.find(value, entry .. ' ', 1, true) == 1
end
