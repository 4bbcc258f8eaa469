--- @include ./read-holder.lua
--- Returns what the caller has written if it still holds the lock. From now = value on, some clients take it over.
local function readOwn()
  local holder = readHolder()
  if holder and holder.owner == args.owner and tonumber(args.localNow) < holder.value then
    return holder
  end
end
