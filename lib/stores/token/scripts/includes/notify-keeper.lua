--- @include ./other-wire.lua
--[[ Notifies the instance that holds the lock that another one wants it, if the instance may keep locks after their
  release: then the number of its attempt begins with 0. Waiters behind the first one need not notify it again. The
  message is not signed: it ends a keeping, and has no other effect.
  @param held the value of the lock
  @param entry the entry that requests it ]]
local function notifyKeeper(held, entry)
  local instance = string.match(held, '^([%w_-]+):0%d')
  if not instance or otherWire(held) then
    return
  end
  local first = redis.pcall('ZRANGE', keys.queue, 0, 0)[1]
  if first and first ~= entry then
    return
  end
  if args.sharded then
    redis.pcall('SPUBLISH', args.prefix .. instance, 'wanted ' .. keys.lock)
  else
    redis.pcall('PUBLISH', args.prefix .. instance, 'wanted ' .. keys.lock)
  end
end
