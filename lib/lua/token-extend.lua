--[[ Give the lock a new lease if it is still the claim's; a lease never gets shorter. It is always a write, even of what is there
  already: only then WAIT, sent behind it, covers this and all that was written before. One key: while a cluster moves a slot,
  others that are not there would put it off.
  KEYS[1] what the claim is kept in: the lock, or the queue, before which those stand who share the lock
  ARGV[1] claim   ARGV[2] lease in ms
  returns 1 renewed | 0 not the claim's ]]
--- @include mode
if modeOf(ARGV[1]) then
--- @include now
  local nowMs = tonumber(string.sub(now, 1, -4))
  local ends = -tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 0)
  if ends <= nowMs then
    return 0
  end
  redis.call('ZADD', KEYS[1], 'XX', 'LT', -(nowMs + ARGV[2]), ARGV[1])
else
  local held = redis.call('GET', KEYS[1])
  local ours = ARGV[1] .. ' '
  if not held or string.sub(held, 1, #ours) ~= ours then
    return 0
  end
end
redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])))
return 1
