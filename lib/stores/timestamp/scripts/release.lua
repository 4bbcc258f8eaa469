--[[ Releases the lock if the owner still holds it. Otherwise the key may be another client's and stays as it is.
  A release that is sent again, because its reply was lost, is harmless.
  keys.lock
  keys.holder     the owner that acquired the lock by a script
  args.owner
  args.lowest     lowest value that counts as the owner's
  args.highest    highest value that counts as the owner's
  args.raceUntil  until when the loser of a race counts: µs, server time
  args.endsAt     end of the owner's lease: µs, server time
  returns 1: released | 0: not held by the owner ]]
--- @include ../../../redis/scripts/includes/now.lua
--- @include ./includes/is-ours.lua
if isOurs(args.owner, args.lowest, args.highest, args.raceUntil, args.endsAt, now) then
  redis.call('DEL', keys.lock, keys.holder)
  return 1
end
return 0
