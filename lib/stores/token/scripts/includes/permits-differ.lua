--- Returns whether both modes are permits, of different numbers.
local function permitsDiffer(sharers, mode)
  return tonumber(mode) and tonumber(sharers.mode) and mode ~= sharers.mode
end
