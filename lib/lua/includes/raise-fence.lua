--[[ Makes sure that no token up to the given one is given under this hash tag any more.
  KEYS[2] fence: the last token given under this hash tag ]]
local function raiseFence(last)
  local before = redis.call('GET', KEYS[2])
  if not before or tonumber(before) < tonumber(last) then
    redis.call('SET', KEYS[2], last, 'EX', '86400')
  end
end
