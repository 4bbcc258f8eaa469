--[[ Returns the wire version of a value or an entry if this script does not understand it. Returns nil otherwise.
  Every version begins its values and entries with its number and the id of the instance: `v1-<instance id>:<attempt>/`.
  A text without a version is another system's. What another version wrote stays as it is: the script waits behind it,
  never removes it, and publishes nothing to its instance. A version shares a lock only with entries whose rules it
  follows, so the first sharer stands for all. ]]
local function otherWire(text)
  if string.sub(text, 1, 3) == 'v1-' then
    return nil
  end
  return string.match(text, '^v(%d+)%-[%w_-]+:%d+/')
end
