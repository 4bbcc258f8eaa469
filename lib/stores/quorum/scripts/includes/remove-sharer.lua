--[[ Removes the sharer that begins with `ours` from the value of a shared lock.
  Returns the value without it. If it was there, also returns its owner, round and token, and the end of its lease. ]]
local function removeSharer(held, ours)
  local first, last = string.find(held, ';' .. ours, 1, true)
  if not first then
    return held
  end
  local stop = string.find(held, ';', last + 1, true)
  local mine, ends = string.match(string.sub(held, first + 1, stop - 1), '^(.*) (%d+)$')
  return string.sub(held, 1, first) .. string.sub(held, stop + 1), mine, tonumber(ends)
end
