--[[ A lock that is shared has a value of its own kind: `*;`, and for each who shares it what the value of a lock that is held alone
  would be, owner, round and token, then the end of that lease in ms of the server's time, and a `;`. The key lives as long as the
  last of them. To all scripts for those who want the lock alone, of older versions as well, it is somebody else's lock. ]]
local function isShared(held)
  return string.sub(held, 1, 2) == '*;'
end

--[[ Takes out of a shared lock's value whoever begins with `ours`. Answers the others, and, unless it is not there, what it has
  and when its lease ends. ]]
local function takeOut(held, ours)
  local first, last = string.find(held, ';' .. ours, 1, true)
  if not first then
    return held
  end
  local stop = string.find(held, ';', last + 1, true)
  local mine, ends = string.match(string.sub(held, first + 1, stop - 1), '^(.*) (%d+)$')
  return string.sub(held, 1, first) .. string.sub(held, stop + 1), mine, tonumber(ends)
end

--- The value of a lock that one more shares.
local function withSharer(others, mine, ends)
  return others .. mine .. ' ' .. string.format('%.0f', ends) .. ';'
end
