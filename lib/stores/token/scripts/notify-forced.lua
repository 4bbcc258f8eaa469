--[[ Notifies the instance of an entry again that its lock was released by force. It may have subscribed since then.
  keys.lock
  args.entry     the former holder
  args.prefix    prefix of the instances' channels
  args.sharded?  any value: the channels are sharded, as in a cluster
  returns the number of receivers, -1 if there can be none ]]
--- @include ./includes/notify-forced.lua
return notifyForced(args.entry)
