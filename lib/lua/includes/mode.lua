--[[ A claim is its owner; where it shares the lock with others, a space and its mode follow: `*` shares it with all who claim
  it so, a number with so many of those at most, itself among them. Answers the mode; nil if it shares it with nobody. ]]
local function modeOf(claim)
  return string.match(claim, ' (.*)')
end
