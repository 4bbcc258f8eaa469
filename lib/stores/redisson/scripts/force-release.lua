--[[ Ends the hold of a lock of Redisson for a caller other than its owner, and publishes what Redisson's forceUnlock
  publishes. Ends only the hold of that owner, so that a script that is sent again does not end the next one. A key of
  another kind is an error and stays as it is.
  keys.lock      hash of hold counts by owner
  args.owner     the owner whose hold is ended
  args.channel   the waiters' channel
  args.sharded?  any value: the channel is sharded, as in a cluster, if the server has sharded channels
  returns 1: released | 0: not held by the owner ]]
--- @include ./includes/kind-error.lua
--- @include ./includes/publish.lua
if redis.call('HEXISTS', keys.lock, args.owner) == 0 then
  return 0
end
local wrong = kindError()
if wrong then
  return wrong
end
redis.call('DEL', keys.lock)
publish('0')
return 1
