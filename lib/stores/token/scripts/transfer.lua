--[[ Gives an exclusive lock to another owner, or renews the lease of its own. Running twice is harmless, because an
  owner that has given its lock away never has it again. Does not concern the queue.
  keys.lock     see the acquire script. A lock that was given away keeps no method and no label. With a limit it
                is `v2-<owner> <token> <server time in ms>`
  args.from     `v2-<owner>` that has the lock
  args.entry    `v2-<owner>` that gets it. The same as `from`: its lease is renewed, and never shortened
  args.leaseMs
  args.token    the fencing token of the lock from now on, or empty: it stays as it is
  args.restMs   how long the lock may be held from now on, or empty. Has no effect on a lock that has a limit
  returns {token, ms until the limit or -1 without one}: transferred | 0: nobody has the lock | 1: others have it
]]
--- @include ./includes/is-of.lua
--- @include ./includes/now-ms.lua
local value = redis.call('GET', keys.lock)
-- By an earlier run, or because it is its own.
local isGiven = value and isOf(value, args.entry)
if not isGiven and not (value and isOf(value, args.from)) then
  return value and 1 or 0
end
local token, rest = string.match(value, '^(%d+)(.*)', #(isGiven and args.entry or args.from) + 2)
local limit = string.match(rest, '^ (%d+)$') or ''
if not isGiven and limit == '' and args.restMs ~= '' then
  limit = string.format('%.0f', nowMs + args.restMs)
end
local restMs = limit == '' and -1 or limit - nowMs
if limit ~= '' and restMs <= 0 then
  return 0
end
local leaseMs = isGiven and math.max(redis.call('PTTL', keys.lock), args.leaseMs) or args.leaseMs
-- Out of memory, Redis refuses SET unless the script has written before. Writes in any case, for a WAIT behind it.
redis.call('PEXPIRE', keys.lock, limit == '' and leaseMs or math.min(leaseMs, restMs))
if not isGiven then
  token = args.token == '' and token or args.token
  redis.call('SET', keys.lock, args.entry .. ' ' .. token .. (limit == '' and '' or ' ' .. limit), 'KEEPTTL')
end
return { token, restMs }
