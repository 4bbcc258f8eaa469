--[[ Give a lock back to a node that has lost it, while a majority has it still; never over another's. A run after the deadline
  changes nothing, so that a delayed one cannot lock for somebody who has left.
  KEYS[1] lock   KEYS[2] fence
  ARGV[1] value of the lock   ARGV[2] last token that others have given   ARGV[3] lease in ms   ARGV[4] deadline in µs of the
  server's time
  returns 1 given back | 0 somebody has it, or past deadline ]]
--- @include now
if tonumber(now) > tonumber(ARGV[4]) then
  return 0
end
--- @include raise-fence
raiseFence(ARGV[2])
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[3]) and 1 or 0
