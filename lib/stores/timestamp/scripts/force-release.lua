--[[ Deletes the lock for a caller other than its owner, if it still has that value and that holder. Otherwise the key
  may be another client's and stays as it is.
  keys.lock
  keys.holder  the owner that acquired the lock by a script
  args.held    the value that the caller has read
  args.owner   the owner that the caller has read, empty if there was none
  returns 1: deleted | 0: the value or the holder is another one ]]
if redis.call('GET', keys.lock) ~= args.held or (redis.call('GET', keys.holder) or '') ~= args.owner then
  return 0
end
redis.call('DEL', keys.lock, keys.holder)
return 1
