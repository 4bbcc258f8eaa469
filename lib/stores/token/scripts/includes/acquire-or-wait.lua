--- @include ./read-sharers.lua
--- @include ./permits-differ.lua
--- @include ./has-waiters.lua
--- @include ./may-share.lua
--- @include ./grant.lua
--- @include ./keep-queue.lua
--- @include ./hand-off.lua
--- @include ./handoffs.lua
--- @include ./add-holder.lua
--- @include ./ms-until-free.lua
--- @include ./waiters-before.lua
--- @include ./other-wire.lua
--- @include ./prompt-waiters.lua
--- Acquires a lock that may be held or waited for. Returns the reply of the acquire script for the entry.
local function acquireOrWait(entry, mode, now)
  local held = redis.call('GET', keys.lock)
  local ours = entry .. ' '
  if held and string.sub(held, 1, #ours) == ours then
    redis.pcall('ZREM', keys.queue, entry)
    if redis.call('PTTL', keys.lock) < tonumber(args.leaseMs) then
      redis.call('PEXPIRE', keys.lock, args.leaseMs)
    end
    return { 2, string.sub(held, #ours + 1), now }
  end

  local sharers = held and { excluded = true } or readSharers(mode)
  if mode and not held then
    if tonumber(redis.call('ZSCORE', keys.queue, entry) or 0) < 0 then
      return { 2, (grant(entry, args.leaseMs, '1', now)), now }
    end
    if permitsDiffer(sharers, mode) then
      return { -2, sharers.mode, now }
    end
    -- Without waiters, the entry does not join the queue first.
    if not sharers.other and not hasWaiters() and mayShare(sharers, entry) then
      return { 1, (grant(entry, args.leaseMs, '1', now)), now, 1 }
    end
  end

  -- Tickets, not times: times repeat, and clocks are set back.
  local last = args.willWait == '1' and redis.call('ZRANGE', keys.queue, -1, -1, 'WITHSCORES')
  -- A queue with entries of another wire version is not prolonged, so that those of dead instances end.
  local joins = last and not sharers.other and not (last[1] and otherWire(last[1]))
  if joins then
    local ticket = math.floor(math.max(last[2] or 0, 0)) + 1
    if redis.call('ZADD', keys.queue, 'NX', ticket, entry) == 0 then
      -- It has done what it was prompted to.
      ticket = redis.call('ZSCORE', keys.queue, entry)
      if ticket % 1 > 0 then
        redis.call('ZADD', keys.queue, 'XX', math.floor(ticket), entry)
      end
    end
    if (sharers.count or 0) > 0 then
      keepQueue(60000)
    else
      redis.call('PEXPIRE', keys.queue, 60000)
    end
  end

  local channels = { prefix = args.prefix, sharded = args.sharded }
  local count = sharers.count
  if handOff(sharers, channels, args.handoffMs, args.tokens, now, entry) and mayShare(sharers, entry) then
    redis.pcall('ZREM', keys.queue, entry)
    local token, reserved = grant(entry, args.leaseMs, args.tokens, now)
    addHolder(sharers, entry)
    handOff(sharers, channels, args.handoffMs, args.tokens, now)
    if not handoffs.more then
      promptWaiters(channels, args.handoffMs, now, entry)
    end
    return { 1, token, now, reserved, handoffs.more and 1 or 0 }
  end
  if sharers.count ~= count and not handoffs.more then
    promptWaiters(channels, args.handoffMs, now, entry)
  end

  local status, ahead = 0, nil
  if joins then
    status, ahead = 3, waitersBefore(entry)
  end
  if sharers.other then
    return { status, -2, now, string.sub(sharers.other, 1, 400), 0, 0, ahead }
  end
  if sharers.excluded then
    local holder = held or redis.call('GET', keys.lock) or ''
    -- The value of another system may be long.
    return { status, redis.call('PTTL', keys.lock), now, string.sub(holder, 1, 400), 0, 0, ahead }
  end
  if sharers.count == 0 or (handoffs.more and handoffs.removals == 0 and mayShare(sharers, entry)) then
    -- Nobody keeps the entry from the lock. Entries that have to be removed stand before it.
    return { status, -2, now, '', 0, 1, ahead }
  end
  local remaining, sharer = msUntilFree(sharers, mode)
  return { status, remaining, now, sharer, sharers.count, handoffs.more and 1 or 0, ahead }
end
