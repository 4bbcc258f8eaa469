--- @include ./other-wire.lua
--- @include ./notify.lua
--[[ Lets the instance of the last entry repeat its request, by a handoff that has already expired. The script stops
  before it has served the queue, and the instance that has sent it may end before it goes on. The last entry is the
  most likely one to be alive.
  @param channels as for `handOff`
  @param caller the entry that gets a reply, if any ]]
local function wakeLast(channels, leaseMs, caller)
  local last = redis.pcall('ZRANGE', keys.queue, -1, -1)[1]
  if last and last ~= caller and not otherWire(last) then
    notify(last, channels.prefix .. string.match(last, '^[^:]*'), channels.sharded, '0', '1', '0', leaseMs)
  end
end
