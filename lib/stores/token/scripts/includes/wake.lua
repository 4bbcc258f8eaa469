--- @include ./mode-of.lua
--- Sends `<owner> <mode> <key>` to the instance of an entry, `-` for exclusive. The message grants nothing.
local function wake(entry)
  local owner = string.match(entry, '^v2%-([^ ]+)')
  if not owner then
    return
  end
  local channel = args.channels .. string.match(entry, '^[^:]*')
  local start = owner .. ' ' .. (modeOf(entry) or '-') .. ' '
  if args.sharded == '1' then
    redis.pcall('SPUBLISH', channel, start .. keys.lock)
  else
    redis.pcall('PUBLISH', channel, start .. keys.lock)
  end
end
