--- @include ./share-time.lua
--- @include ./keep-life.lua
--- Ends a share. Returns whether there was one.
local function removeShare(entry)
  local time = shareTime()
  local wasThere = redis.call('ZREM', keys.holders, entry) == 1
  keepLife(time)
  return wasThere
end
