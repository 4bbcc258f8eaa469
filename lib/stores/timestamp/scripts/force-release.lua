--[[ Deletes the lock for somebody else than its owner, if it still has that value. Otherwise the key may be another
  client's and stays as it is.
  keys.lock
  keys.holder  the owner that acquired the lock by a script
  args.held    the value that the caller has read
  returns 1: deleted | 0: the value is another one ]]
if redis.call('GET', keys.lock) ~= args.held then
  return 0
end
redis.call('DEL', keys.lock, keys.holder)
return 1
