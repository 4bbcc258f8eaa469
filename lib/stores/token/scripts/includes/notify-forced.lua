--[[ Notifies the instance of an entry that somebody has released its lock by force. The message is not signed: the
  instance asks for its lock, and a message has no other effect on a hold. Returns the number of receivers. Returns -1
  if there can be none: the entry is another system's, or the server refuses to publish. ]]
local function notifyForced(entry)
  local instance = string.match(entry, '^([%w_-]+):%d+/')
  if not instance then
    return -1
  end
  local receivers
  if args.sharded then
    receivers = redis.pcall('SPUBLISH', args.prefix .. instance, 'forced ' .. keys.lock)
  else
    receivers = redis.pcall('PUBLISH', args.prefix .. instance, 'forced ' .. keys.lock)
  end
  return type(receivers) == 'number' and receivers or -1
end
