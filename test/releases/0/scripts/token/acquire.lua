local now = redis.call('TIME')
now = now[1] .. string.sub('00000' .. now[2], -6)
if now > ARGV[3] then
return { -1, 0, now }
end
local function modeOf(entry)
return string.match(entry, ' (.*)')
end
local mode = modeOf(ARGV[1])
local function nextToken(tokens, now)
local last = tonumber(redis.call('SET', KEYS[2], now, 'EX', '86400', 'GET'))
if not last or not (last < 9e15) then
return now, 1
end
if last >= tonumber(now) then
local token = string.format('%.0f', last + 1)
redis.call('SET', KEYS[2], token, 'EX', '86400')
return token, 1
end
if tokens == '1' then
return now, 1
end
local first = math.max(last + 1, now - tokens + 1)
return string.format('%.0f', first), now - first + 1
end
if not mode and redis.call('EXISTS', KEYS[1], KEYS[3]) == 0 then
local token, reserved = nextToken(ARGV[4], now)
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. token, 'PX', ARGV[2])
return token == now and now or { 1, token, now, reserved }
end
local function shareTime()
return 1e13 - redis.call('PTTL', KEYS[3])
end
local function hasSharers()
if redis.call('EXISTS', KEYS[3]) == 0 then
return false
end
local first = redis.pcall('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
if first.err then
return redis.call('ZCOUNT', KEYS[3], '-inf', '(0') > 0
end
return tonumber(first[2]) <= 0
end
local function readSharers(mode)
if not mode and not hasSharers() then
return { count = 0 }
end
redis.call('ZREMRANGEBYSCORE', KEYS[3], -shareTime(), '(0')
local count = redis.call('ZCOUNT', KEYS[3], '-inf', '(0')
return { count = count, mode = count > 0 and modeOf(redis.call('ZRANGE', KEYS[3], 0, 0)[1]) or nil }
end
local function permitsDiffer(sharers, mode)
return tonumber(mode) and tonumber(sharers.mode) and mode ~= sharers.mode
end
local function hasWaiters()
return redis.call('ZCOUNT', KEYS[3], '(0', '+inf') > 0
end
local function mayShare(sharers, entry)
if sharers.count == 0 then
return true
end
local mode = modeOf(entry)
return mode == sharers.mode and (mode == '*' or sharers.count < tonumber(mode))
end
local function keepQueue(ms)
local left = redis.call('PTTL', KEYS[3])
if left >= tonumber(ms) then
return left
end
local longer = 2 * math.max(ms, 60000)
local shares = redis.call('ZRANGE', KEYS[3], '-inf', '(0', 'BYSCORE', 'WITHSCORES')
for i = 1, #shares, 2 do
redis.call('ZADD', KEYS[3], shares[i + 1] + longer - left, shares[i])
end
redis.call('PEXPIRE', KEYS[3], longer)
return longer
end
local function share(entry, leaseMs)
redis.call('ZADD', KEYS[3], 'NX', 0, entry)
local left = keepQueue(leaseMs)
if redis.call('ZADD', KEYS[3], 'LT', 'CH', -(1e13 - left + leaseMs), entry) == 0 then
redis.call('PEXPIRE', KEYS[3], left)
end
end
local function lock(entry, leaseMs, token)
if modeOf(entry) then
share(entry, leaseMs)
else
redis.call('SET', KEYS[1], entry .. ' ' .. token, 'PX', leaseMs)
end
end
local function grant(entry, leaseMs, tokens, now)
local token, reserved = nextToken(modeOf(entry) and '1' or tokens, now)
lock(entry, leaseMs, token)
return token, reserved
end
local function addHolder(sharers, entry)
sharers.mode = modeOf(entry)
sharers.count = sharers.count + 1
sharers.excluded = not sharers.mode
end
local function notify(entry, channel, sharded, token, tokens, grantedAt, leaseMs)
local attempt, secret, mode = string.match(entry, ':(%d*)/?(%S*) ?(.*)')
local text = table.concat({ attempt, token, tokens, grantedAt, leaseMs, mode, '' }, ' ')
local message = redis.sha1hex(text .. KEYS[1] .. ' ' .. secret) .. ' ' .. text
if sharded then
redis.pcall('SPUBLISH', channel, message .. KEYS[1])
else
redis.pcall('PUBLISH', channel, message .. KEYS[1])
end
end
local handoffs = { left = 64, more = false }
local function handOff(sharers, channels, leaseMs, tokens, now, caller)
handoffs.more = false
while not sharers.excluded do
local entry
if sharers.count == 0 then
entry = redis.pcall('ZPOPMIN', KEYS[3])[1]
else
entry = redis.pcall('ZRANGE', KEYS[3], sharers.count, sharers.count)[1]
end
if not entry then
return true
end
local fits = mayShare(sharers, entry)
if not fits and not permitsDiffer(sharers, modeOf(entry)) then
return false
end
if fits and entry == caller then
return true
end
if fits and sharers.count > 0 and handoffs.left <= 0 then
handoffs.more = true
return false
end
local channel = channels.prefix .. string.match(entry, '^[^:]*')
local counted = redis.pcall('PUBSUB', channels.sharded and 'SHARDNUMSUB' or 'NUMSUB', channel)
if counted.err then
return true
end
local alive, token, reserved, grantedAt = counted[2] > 0, '0', '1', '0'
if fits and alive then
local granted
granted, token, reserved = pcall(grant, entry, leaseMs, tokens, now)
if not granted then
return true
end
grantedAt = now
handoffs.left = handoffs.left - 1
addHolder(sharers, entry)
elseif sharers.count > 0 and redis.pcall('ZREM', KEYS[3], entry) ~= 1 then
return true
end
if alive then
notify(entry, channel, channels.sharded, token, reserved, grantedAt, leaseMs)
end
end
return false
end
local function msUntilFree(sharers, mode)
local blocker = mode and sharers.count - 1 or 0
local found = redis.call('ZRANGE', KEYS[3], blocker, blocker, 'WITHSCORES')
return -found[2] - shareTime(), found[1]
end
local function waitersBefore(entry)
local ticket = redis.pcall('ZSCORE', KEYS[3], entry)
local before = type(ticket) == 'string' and redis.pcall('ZCOUNT', KEYS[3], '(0', '(' .. ticket)
return type(before) == 'number' and before or nil
end
local function notifyKeeper(held, entry)
local instance = string.match(held, '^([%w_-]+):0%d')
if not instance then
return
end
local first = redis.pcall('ZRANGE', KEYS[3], 0, 0)[1]
if first and first ~= entry then
return
end
if ARGV[8] then
redis.pcall('SPUBLISH', ARGV[7] .. instance, 'wanted ' .. KEYS[1])
else
redis.pcall('PUBLISH', ARGV[7] .. instance, 'wanted ' .. KEYS[1])
end
end
local function acquireOrWait(entry, mode, now)
local held = redis.call('GET', KEYS[1])
local ours = entry .. ' '
if held and string.sub(held, 1, #ours) == ours then
redis.pcall('ZREM', KEYS[3], entry)
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return { 2, string.sub(held, #ours + 1), now }
end
local sharers = held and { excluded = true } or readSharers(mode)
if mode and not held then
if tonumber(redis.call('ZSCORE', KEYS[3], entry) or 0) < 0 then
return { 2, (grant(entry, ARGV[2], '1', now)), now }
end
if permitsDiffer(sharers, mode) then
return { -2, sharers.mode, now }
end
if not hasWaiters() and mayShare(sharers, entry) then
return { 1, (grant(entry, ARGV[2], '1', now)), now, 1 }
end
end
if ARGV[5] == '1' then
local last = redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2] or 0
redis.call('ZADD', KEYS[3], 'NX', math.max(last, 0) + 1, entry)
if (sharers.count or 0) > 0 then
keepQueue(60000)
else
redis.call('PEXPIRE', KEYS[3], 60000)
end
end
if held then
notifyKeeper(held, entry)
end
local channels = { prefix = ARGV[7], sharded = ARGV[8] }
if handOff(sharers, channels, ARGV[6], ARGV[4], now, entry) and mayShare(sharers, entry) then
redis.pcall('ZREM', KEYS[3], entry)
local token, reserved = grant(entry, ARGV[2], ARGV[4], now)
addHolder(sharers, entry)
handOff(sharers, channels, ARGV[6], ARGV[4], now)
return { 1, token, now, reserved, handoffs.more and 1 or 0 }
end
local status, ahead = 0, nil
if ARGV[5] == '1' then
status, ahead = 3, waitersBefore(entry)
end
if sharers.excluded then
local holder = held or redis.call('GET', KEYS[1]) or ''
return { status, redis.call('PTTL', KEYS[1]), now, string.sub(holder, 1, 400), 0, 0, ahead }
end
local remaining, sharer = msUntilFree(sharers, mode)
return { status, remaining, now, sharer, sharers.count, handoffs.more and 1 or 0, ahead }
end
return acquireOrWait(ARGV[1], mode, now)