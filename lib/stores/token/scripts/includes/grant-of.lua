--- Returns what is the same for a whole hold: the value without what its holder says about itself.
local function grantOf(value)
  return string.match(value, '^v2%-[^ ]+ %d+') or value
end
