--- @include ./handoffs.lua
--- @include ./notify.lua
--- @include ./other-wire.lua
--- @include ./prompted-at.lua
--[[ Prompts the waiters to repeat their requests, because a holder let its lease run out. Those that are gone or frozen
  do not, and `handOff` removes them when their turn comes. So they delay the others once, however many they are.
  @param channels as for `handOff`
  @param caller the entry that gets a reply ]]
local function promptWaiters(channels, leaseMs, now, caller)
  local waiters = redis.pcall('ZRANGE', keys.queue, '(0', '+inf', 'BYSCORE', 'LIMIT', 0, 1000, 'WITHSCORES')
  for i = 1, #waiters, 2 do
    local entry, score = waiters[i], tonumber(waiters[i + 1])
    if entry ~= caller and score % 1 == 0 and not otherWire(entry) and handoffs.prompts > 0 then
      handoffs.prompts = handoffs.prompts - 1
      redis.pcall('ZADD', keys.queue, 'XX', score + promptedAt(now), entry)
      notify(entry, channels.prefix .. string.match(entry, '^[^:]*'), channels.sharded, '0', '1', '0', leaseMs)
    end
  end
end
