--[[ Take the lock for the asker if it is free; if it is the asker's already, give its lease back its full length.
  A run after the deadline changes nothing, so that a delayed ask cannot lock for somebody who has given up. The token is
  the server's time, or one more than the last token where the clock did not move on.
  KEYS[1] lock   KEYS[2] fence: the last token given under this hash tag
  ARGV[1] owner   ARGV[2] lease in ms   ARGV[3] deadline in µs of the server's time   ARGV[4] life of the fence in ms
  returns {1, token, now} granted | {0, remaining ms of the holder's lease or -1, now} held | {-1, 0, now} past deadline;
  now in µs of the server's time ]]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then
  return { -1, 0, now }
end

local token = string.format('%.0f', now)
if redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. token, 'NX', 'PX', ARGV[2]) then
  local last = redis.call('SET', KEYS[2], token, 'PX', ARGV[4], 'GET')
  if last and tonumber(last) >= now then
    token = string.format('%.0f', tonumber(last) + 1)
    redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. token, 'PX', ARGV[2])
    redis.call('SET', KEYS[2], token, 'PX', ARGV[4])
  end
  return { 1, tonumber(token), now }
end

local held = redis.call('GET', KEYS[1])
local remaining = redis.call('PTTL', KEYS[1])
local ours = ARGV[1] .. ' '
if string.sub(held, 1, #ours) ~= ours then
  return { 0, remaining, now }
end
if remaining < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return { 1, tonumber(string.sub(held, #ours + 1)), now }
