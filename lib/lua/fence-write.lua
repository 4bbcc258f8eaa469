--[[ Let in the token that has opened the fence last, and no other. The write stands behind this in the same script, so that
  nobody can open the fence between the check and the write.
  KEYS[1] fence
  ARGV[1] token
  returns an error STALEFENCE | what the write returns ]]
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return redis.error_reply('STALEFENCE a later holder has opened the fence')
end
