--[[ One node's vote for an asker who shares the lock: let it in if nobody has the lock alone; if it is in already, from an
  earlier round, take it over into this round, and give its lease back its full length. Rounds and deadline are as in
  quorum-ask.lua. A token is as there, too, and the only one that this node may give among as many as there are nodes: so that no two
  nodes ever give one token to two who share the lock.
  KEYS[1] lock: all who share it   KEYS[2] fence: the last token given under this hash tag
  ARGV[1] owner   ARGV[2] round   ARGV[3] lease in ms   ARGV[4] deadline in µs of the server's time   ARGV[5] number of
  nodes   ARGV[6] proposed token: modulo the number of nodes, it is the place of this one among them
  returns {1, token, now} granted | {2, token, now} the asker's already | {0, remaining, now, holder} held alone | {-1, 0, now}
  past deadline, or past its round; remaining in ms of the holder's lease or -1, now in µs of the server's time ]]
--- @include now
if tonumber(now) > tonumber(ARGV[4]) then
  return { -1, 0, now }
end

--- @include quorum-share
local held = redis.call('GET', KEYS[1]) or '*;'
if not isShared(held) then
  return { 0, redis.call('PTTL', KEYS[1]), now, held }
end

local nowMs = tonumber(string.sub(now, 1, -4))
local ours, ends = ARGV[1] .. ' ', nowMs + ARGV[3]
local others, mine, before = takeOut(held, ours)
if mine and before > nowMs then
  local round, token = string.match(mine, '^(%d+) (%d+)$', #ours + 1)
  if tonumber(round) > tonumber(ARGV[2]) then
    return { -1, 0, now }
  end
  share(others, ours .. ARGV[2] .. ' ' .. token, math.max(before, ends), nowMs)
  return { 2, token, now }
end

--- @include quorum-tokens
local place = ARGV[6] % ARGV[5]
local token = string.format('%.0f', setAside(ARGV[5], ARGV[6] - place, now, ARGV[5]) + place)
share(others, ours .. ARGV[2] .. ' ' .. token, ends, nowMs)
return { 1, token, now }
