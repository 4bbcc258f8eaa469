--[[ Admits the token that opened the fence last, and no other.
  The caller appends its write to this script. Nobody can open the fence between the check and the write.
  keys.fence
  args.token
  returns the error STALEFENCE | the reply of the write ]]
if redis.call('GET', keys.fence) ~= args.token then
  return redis.error_reply('STALEFENCE a later holder has opened the fence')
end
