--- Returns the value of a shared lock with one more sharer.
local function withSharer(others, mine, ends)
  return others .. mine .. ' ' .. string.format('%.0f', ends) .. ';'
end
