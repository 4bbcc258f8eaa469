--[[ Registers the application that uses the keys of a prefix. Returns the one that was registered before.
  keys.application
  args.name
  args.ttlMs  how long the application is remembered
  returns its name | '': there was none ]]
local before = redis.call('GET', keys.application)
redis.call('SET', keys.application, args.name, 'PX', args.ttlMs)
return before or ''
