--- Returns whether an entry in that mode may have the lock besides its holders.
local function fits(holders, mode)
  if holders.count == 0 then
    return true
  end
  return mode and mode == holders.mode and (mode == '*' or holders.count < tonumber(mode))
end
