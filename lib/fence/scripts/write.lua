--[[ Admits only the token that opened the fence last.
  The caller appends its write to this script. Nobody can open the fence between the check and the write.
  keys.fence
  args.token
  returns the errors STALEFENCE and NOTAFENCE | the reply of the write ]]
--- @include ./includes/last-token.lua
do
  local last = lastToken()
  if type(last) == 'table' then
    return last
  end
  if last ~= args.token then
    return redis.error_reply('STALEFENCE a later holder has opened the fence')
  end
end
