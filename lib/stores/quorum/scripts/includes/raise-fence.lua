--- Raises the fence to `last`: tokens up to it are no longer granted.
local function raiseFence(last)
  local before = redis.call('GET', keys.fence)
  if not before or tonumber(before) < tonumber(last) then
    redis.call('SET', keys.fence, last, 'EX', '86400')
  end
end
