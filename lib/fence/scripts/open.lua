--[[ Raises the fence to a token, unless a higher token has opened it. From then on, the fence admits only this token.
  keys.fence  the token that opened the fence last
  args.token
  args.ttlMs  how long the fence is kept
  returns 1: opened | 0: refused | the error NOTAFENCE ]]
--- @include ./includes/last-token.lua
local last = lastToken()
if type(last) == 'table' then
  return last
end
-- Numbers are exact up to 2^53. The fence stores the text that was passed.
if last and tonumber(last) > tonumber(args.token) then
  return 0
end
redis.call('SET', keys.fence, args.token, 'PX', args.ttlMs)
return 1
