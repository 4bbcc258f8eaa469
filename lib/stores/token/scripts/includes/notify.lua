--[[ Publishes a handoff to the channel of the entry's instance. The message begins with the SHA-1 of its text and the
  secret of the entry, which never leaves the keys: a client that reads and writes the channels but not the keys can
  repeat a message, and cannot make one or change one. The secret stands last, so that the text cannot be extended.
  The text ends with the key: after a failover, the queue may hold owners that their instance no longer knows.
  Their instance releases the lock. ]]
local function notify(entry, channel, sharded, token, tokens, grantedAt, leaseMs)
  local attempt, secret, mode = string.match(entry, ':(%d*)/?(%S*) ?(.*)')
  local text = table.concat({ attempt, token, tokens, grantedAt, leaseMs, mode, '' }, ' ')
  local message = redis.sha1hex(text .. keys.lock .. ' ' .. secret) .. ' ' .. text
  if sharded then
    redis.pcall('SPUBLISH', channel, message .. keys.lock)
  else
    redis.pcall('PUBLISH', channel, message .. keys.lock)
  end
end
