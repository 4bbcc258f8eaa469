--- @include ./mode-of.lua
--- @include ./is-of.lua
--- @include ./read-holders.lua
--- @include ./remove-share.lua
--- @include ./share.lua
--- @include ./next-token.lua
--- @include ./fits.lua
--- @include ./permits-differ.lua
--- @include ./is-listening.lua
--- @include ./hand-off.lua
--- @include ./grant.lua
--- @include ./held-by.lua
--- Acquires one lock. Returns the reply for it.
local function acquireOne()
  local holders, mode = readHolders(), modeOf(args.entry)
  local value = holders.value
  if value and isOf(value, args.entry) then
    redis.call('ZREM', keys.queue, args.entry)
    -- Writes in any case, so that a WAIT behind it covers the grant.
    redis.call('PEXPIRE', keys.lock, math.max(redis.call('PTTL', keys.lock), args.leaseMs))
    local token, rest = string.match(value, '^(%d+)(.*)', #args.entry + 2)
    -- A lock that was detached has its limit there.
    if rest ~= args.about and not string.find(rest, '^ %d+$') then
      redis.call('SET', keys.lock, args.entry .. ' ' .. token .. args.about, 'KEEPTTL')
    end
    return token
  end
  if mode and value then
    -- Another client has the lock beside this reader, which has lost it.
    removeShare(args.entry)
  elseif mode and redis.call('ZSCORE', keys.holders, args.entry) then
    redis.call('ZREM', keys.queue, args.entry)
    share(args.entry, args.leaseMs)
    -- More sharers may fit than the run that handed the lock off could serve.
    handOff(holders)
    return nextToken()
  end
  if permitsDiffer(holders, mode) then
    return { -1, tonumber(holders.mode) }
  end
  if fits(holders, mode) and redis.call('EXISTS', keys.queue) == 0 then
    return grant(holders, args.entry, args.leaseMs, args.about)
  end

  local queued = args.wait == '1' and isListening(args.entry)
  if queued then
    -- Tickets, not times: clocks are set back.
    local last = redis.call('ZRANGE', keys.queue, -1, -1, 'WITHSCORES')[2]
    redis.call('ZADD', keys.queue, 'NX', (last or 0) + 1, args.entry)
    redis.call('PEXPIRE', keys.queue, 60000)
  end
  local isFirst = handOff(holders, args.entry)
  if permitsDiffer(holders, mode) then
    redis.call('ZREM', keys.queue, args.entry)
    return { -1, tonumber(holders.mode) }
  end
  if isFirst and fits(holders, mode) then
    redis.call('ZREM', keys.queue, args.entry)
    local token = grant(holders, args.entry, args.leaseMs, args.about)
    handOff(holders)
    return token
  end
  return heldBy(holders, mode, queued)
end
