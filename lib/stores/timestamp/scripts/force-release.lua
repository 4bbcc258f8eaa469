--[[ Deletes the lock of a client that uses no scripts, if it still has that value.
  keys.lock
  keys.holder  the owner that acquired the lock by a script, and what it wrote
  args.held    the value that the caller has read
  returns 1: deleted | 0: the value is another one, or an owner holds the lock by a script ]]
--- @include ./includes/read-holder.lua
if redis.call('GET', keys.lock) ~= args.held or readHolder() then
  return 0
end
return redis.call('DEL', keys.lock, keys.holder) > 0 and 1 or 0
