--[[ Give the lock a new lease if it is still the claim's; a lease never gets shorter. It is always a write, even of what is there
  already: only then WAIT, sent behind it, covers this and all that was written before. One key: while a cluster moves a slot,
  others that are not there would put it off.
  KEYS[1] what the claim is kept in: the lock, or the queue, before which those stand who share the lock
  ARGV[1] claim   ARGV[2] lease in ms
  returns 1 renewed | 0 not the claim's ]]
--- @include mode
if modeOf(ARGV[1]) then
--- @include share at KEYS[1]
  if -(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 0) <= shareTime() then
    return 0
  end
  share(ARGV[1], ARGV[2])
  return 1
end
local held = redis.call('GET', KEYS[1])
local ours = ARGV[1] .. ' '
if not held or string.sub(held, 1, #ours) ~= ours then
  return 0
end
redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])))
return 1
