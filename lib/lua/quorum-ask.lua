--[[ One node's vote: take its lock for the asker if it is free; if it is the asker's already, from an earlier round, take it
  over into this round, and give its lease back its full length. Of two rounds of one owner the later one counts, however late
  the earlier one arrives; and a run after the deadline changes nothing. A token is higher than all that this node has given, and
  not lower than its clock and what the asker proposes: so that nodes whose clocks differ can agree at once.
  KEYS[1] lock: owner, round and token   KEYS[2] fence: the last token given under this hash tag
  ARGV[1] owner   ARGV[2] round   ARGV[3] lease in ms   ARGV[4] deadline in µs of the server's time   ARGV[5] number of tokens to
  set aside   ARGV[6] proposed token
  returns {1, token, now} granted | {2, token, now} the asker's already | {0, remaining, now, holder} held | {-1, 0, now} past
  deadline, or past its round; remaining in ms of the holder's lease or -1, now in µs of the server's time ]]
--- @include now
if tonumber(now) > tonumber(ARGV[4]) then
  return { -1, 0, now }
end

local held = redis.call('GET', KEYS[1])
local ours = ARGV[1] .. ' '
if held and string.sub(held, 1, #ours) ~= ours then
  return { 0, redis.call('PTTL', KEYS[1]), now, held }
end

if held then
  local round, token = string.match(held, '^(%d+) (%d+)$', #ours + 1)
  if tonumber(round) > tonumber(ARGV[2]) then
    return { -1, 0, now }
  end
  redis.call('SET', KEYS[1], ours .. ARGV[2] .. ' ' .. token, 'KEEPTTL')
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
  end
  return { 2, token, now }
end

--- @include quorum-tokens
local token = setAside(ARGV[5], ARGV[6], now)
redis.call('SET', KEYS[1], ours .. ARGV[2] .. ' ' .. token, 'PX', ARGV[3])
return { 1, token, now }
