--- @computed-keys
--[[ Iterates over the keys of a script: `for _ in eachKey do`. KEYS[1] is inserted. In each turn, it names the key of
  that turn. ]]
table.insert(KEYS, 1, '')
local function eachKey(_, last)
  local nth = (last or 0) + 1
  KEYS[1] = KEYS[nth + 1]
  return KEYS[1] and nth
end
