--[[ Returns the mode of an entry, or nil if the entry is exclusive. An entry is its owner. If it shares the lock, a
  space and its mode follow: `*` for readers, a number for permits. A number is the most entries that may share the lock
  at once. ]]
local function modeOf(entry)
  return string.match(entry, ' (.*)')
end
