--[[ Raise the fence to a token, unless a higher one has opened it: from then on it lets in this token alone.
  KEYS[1] fence: the token that has opened it last
  ARGV[1] token   ARGV[2] keep it for so many ms
  returns 1 opened | 0 refused ]]
local last = redis.call('GET', KEYS[1])
-- Numbers are exact up to 2^53, and what is written is the text that was given.
if last and tonumber(last) > tonumber(ARGV[1]) then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
