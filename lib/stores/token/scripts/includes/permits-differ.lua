--- Returns whether the lock is held with another number of permits than the mode has.
local function permitsDiffer(holders, mode)
  return holders.count > 0 and tonumber(holders.mode) and tonumber(mode) and holders.mode ~= mode
end
