--- Returns `*` for readers, a number as text for permits, or nil for an exclusive entry.
local function modeOf(entry)
  return string.match(entry, ' (.+)')
end
