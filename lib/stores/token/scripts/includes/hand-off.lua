--- @include ./grant.lua
--- @include ./mode-of.lua
--- @include ./may-share.lua
--- @include ./add-holder.lua
--- @include ./permits-differ.lua
--- @include ./other-wire.lua
--- @include ./notify.lua
--- @include ./handoffs.lua
--- @include ./is-silent.lua
--[[ Returns whether the caller may go on, because no entry stands before its own, after it has handed the lock off:
  grants it to the head of the queue and notifies its instance, then to the next entries as long as they may share it.
  Stops before the caller's entry, whose instance gets a reply. Also returns true if a command is refused, which must
  not keep the lock closed.
  An entry whose instance has no subscriber, or is silent after a prompt, is removed without a grant, because the
  instance may be dead or frozen. An entry with a different `permits` value is removed, because it would block the
  queue. Its instance gets a prompt (`grantedAt` 0), repeats its request, and receives the
  mismatch error.
  Stops before an entry of another wire version. It stays in the queue and gets the lock by its own request.
  Also stops behind a sharer, or before an entry that it would remove, if the script has come to the end of its
  `handoffs`. The release script then has to run again. A lock that stays free until then is nobody's: each request for
  it continues from there.
  @param sharers is updated with each grant. `excluded` means that an exclusive holder has the lock. `other` becomes an
  entry of another wire version that stands first.
  @param channels their `prefix`, and whether they are `sharded`: then only subscribers of this node are counted.
  @param caller the entry to stop before, if any ]]
local function handOff(sharers, channels, leaseMs, tokens, now, caller)
  handoffs.more = false
  while not sharers.excluded do
    -- The first waiter stands after the sharers. A grant moves it among them.
    local first = redis.pcall('ZRANGE', keys.queue, sharers.count, sharers.count, 'WITHSCORES')
    local entry = first[1]
    if not entry then
      return true
    end
    if otherWire(entry) then
      sharers.other = entry
      return false
    end
    local fits = mayShare(sharers, entry)
    if not fits and not permitsDiffer(sharers, modeOf(entry)) then
      return false
    end
    if fits and entry == caller then
      return true
    end
    -- The lock is shared already, so nobody finds it free.
    if fits and sharers.count > 0 and handoffs.left <= 0 then
      handoffs.more = true
      return false
    end
    local channel = channels.prefix .. string.match(entry, '^[^:]*')
    -- Subscribers are counted before the grant: a message counted as received by none could still have a receiver.
    local counted = redis.pcall('PUBSUB', channels.sharded and 'SHARDNUMSUB' or 'NUMSUB', channel)
    if counted.err then
      return true
    end
    local alive = counted[2] > 0 and not isSilent(first[2], now)
    local token, reserved, grantedAt = '0', '1', '0'
    if not (fits and alive) then
      if handoffs.removals == 0 then
        handoffs.more = true
        return false
      end
      handoffs.removals = handoffs.removals - 1
    end
    if sharers.count == 0 and redis.pcall('ZPOPMIN', keys.queue)[1] ~= entry then
      return true
    end
    if fits and alive then
      local granted
      granted, token, reserved = pcall(grant, entry, leaseMs, tokens, now)
      if not granted then
        return true
      end
      grantedAt = now
      handoffs.left = handoffs.left - 1
      addHolder(sharers, entry)
    elseif sharers.count > 0 and redis.pcall('ZREM', keys.queue, entry) ~= 1 then
      return true
    end
    if alive then
      notify(entry, channel, channels.sharded, token, reserved, grantedAt, leaseMs)
    end
  end
  return false
end
