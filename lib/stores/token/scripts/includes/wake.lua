--- Asks the instance of an entry to look again. The message grants nothing.
local function wake(entry)
  local owner = string.match(entry, '^v2%-([^ ]+)')
  if not owner then
    return
  end
  local channel = args.channels .. string.match(entry, '^[^:]*')
  if args.sharded == '1' then
    redis.pcall('SPUBLISH', channel, owner .. ' ' .. keys.lock)
  else
    redis.pcall('PUBLISH', channel, owner .. ' ' .. keys.lock)
  end
end
