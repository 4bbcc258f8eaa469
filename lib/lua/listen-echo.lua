--[[ Send an empty message to the subscribers of a channel, over the connection that asks for locks: an instance that hears
  itself can be told of releases.
  ARGV[1] channel
  returns how many were told ]]
return redis.call('PUBLISH', ARGV[1], '')
