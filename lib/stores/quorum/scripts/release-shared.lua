--[[ Removes one sharer from a node's lock, at once or after the rest of its minimum hold.
  Afterwards the key lives as long as the last of the other leases, and no longer. Running twice is harmless.
  keys.lock    all sharers
  args.owner   the owner, or the owner and the only round that is meant
  args.closedForMs  how long the share stays, 0: remove it now
  returns 1: released | 0: the owner no longer shared the lock ]]
--- @include ../../../redis/scripts/includes/now.lua
--- @include ./includes/is-shared.lua
--- @include ./includes/remove-sharer.lua
--- @include ./includes/with-sharer.lua
local held = redis.call('GET', keys.lock)
if not held or not isShared(held) then
  return 0
end
local others, mine, ends = removeSharer(held, args.owner .. ' ')
if not mine then
  return 0
end

local nowMs = tonumber(string.sub(now, 1, -4))
local active = ends > nowMs
if active and args.closedForMs ~= '0' then
  others = withSharer(others, mine, nowMs + args.closedForMs)
end
local living, last = { '*;' }, nowMs
for sharer, over in string.gmatch(others, '([^;]+ (%d+);)') do
  if tonumber(over) > nowMs then
    living[#living + 1] = sharer
    last = math.max(last, tonumber(over))
  end
end
if last == nowMs then
  redis.call('DEL', keys.lock)
else
  -- Out of memory, Redis refuses SET unless the script has written before. This write needs no memory.
  redis.call('PEXPIRE', keys.lock, last - nowMs)
  redis.call('SET', keys.lock, table.concat(living), 'PXAT', string.format('%.0f', last))
end
return active and 1 or 0
