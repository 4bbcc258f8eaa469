--[[ Publishes an empty message to a channel over the connection that sends the acquire requests.
  An instance that receives its own message receives release messages, too.
  args.channel
  returns the number of receivers ]]
return redis.call('PUBLISH', args.channel, '')
