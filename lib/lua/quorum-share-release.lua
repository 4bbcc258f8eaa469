--[[ End what one has who shares a node's lock, now or after the rest of its minimum hold; then the key lives as long as the last of
  the others, and no longer than any. Running twice harms nothing.
  KEYS[1] lock: all who share it
  ARGV[1] owner, alone or with the only round that is meant   ARGV[2] keep it closed for so many ms, 0 to end it now
  returns 1 ended | 0 it did not share the lock any more ]]
--- @include quorum-sharers
local held = redis.call('GET', KEYS[1])
if not held or not isShared(held) then
  return 0
end
local others, mine, ends = takeOut(held, ARGV[1] .. ' ')
if not mine then
  return 0
end

--- @include now
local nowMs = tonumber(string.sub(now, 1, -4))
local ended = ends > nowMs
if ended and ARGV[2] ~= '0' then
  others = withSharer(others, mine, nowMs + ARGV[2])
end
local living, last = { '*;' }, nowMs
for sharer, over in string.gmatch(others, '([^;]+ (%d+);)') do
  if tonumber(over) > nowMs then
    living[#living + 1] = sharer
    last = math.max(last, tonumber(over))
  end
end
if last == nowMs then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], table.concat(living), 'PXAT', string.format('%.0f', last))
end
return ended and 1 or 0
