--[[ Returns what is known of a lock. Changes nothing.
  keys.lock
  keys.holder  the owner that acquired the lock by a script, and what it wrote
  returns {value, TTL in ms or -1, owner or nil} | nil: there is no lock ]]
--- @include ./includes/read-holder.lua
local held = redis.call('GET', keys.lock)
local holder = held and readHolder()
return held and { held, redis.call('PTTL', keys.lock), holder and holder.owner }
