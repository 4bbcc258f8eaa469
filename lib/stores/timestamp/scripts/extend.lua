--[[ Replaces the lock's expiry if the owner still holds the lock.
  keys.lock
  keys.holder     the owner that acquired the lock by a script
  args.owner
  args.lowest     lowest value that counts as the owner's
  args.highest    highest value that counts as the owner's
  args.raceUntil  until when the loser of a race counts: µs, server time
  args.endsAt     end of the owner's lease: µs, server time
  args.expiry     the new value
  args.ttlMs      TTL of both keys
  returns 1: renewed | 0: not held by the owner ]]
--- @include ../../../redis/scripts/includes/now.lua
--- @include ./includes/write.lua
--- @include ./includes/is-ours.lua
if isOurs(args.owner, args.lowest, args.highest, args.raceUntil, args.endsAt, now, args.expiry) then
  write(args.expiry, args.owner, args.ttlMs, now)
  return 1
end
return 0
