local now = redis.call('TIME')
now = now[1] .. string.sub('00000' .. now[2], -6)
if now > ARGV[3] then
return { -1, 0, now }
end
local function modeOf(entry)
return string.match(entry, ' (.*)')
end
local mode = modeOf(ARGV[1])
local ours = ARGV[1] .. ' '
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
local function mayShare(sharers, entry)
if sharers.count == 0 then
return true
end
local mode = modeOf(entry)
return mode == sharers.mode and (mode == '*' or sharers.count < tonumber(mode))
end
local function msUntilFree(sharers, mode)
local blocker = mode and sharers.count - 1 or 0
local found = redis.call('ZRANGE', KEYS[3], blocker, blocker, 'WITHSCORES')
return -found[2] - shareTime(), found[1]
end
local function hasWaiters()
return redis.call('ZCOUNT', KEYS[3], '(0', '+inf') > 0
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
if ARGV[5] then
redis.pcall('SPUBLISH', ARGV[4] .. instance, 'wanted ' .. KEYS[2])
else
redis.pcall('PUBLISH', ARGV[4] .. instance, 'wanted ' .. KEYS[2])
end
end
local function obstacle()
if redis.call('EXISTS', KEYS[2], KEYS[3]) == 0 then
return
end
local held = redis.call('GET', KEYS[2])
if held then
if string.sub(held, 1, #ours) == ours then
return
end
notifyKeeper(held, ARGV[1])
return 0, redis.call('PTTL', KEYS[2]), string.sub(held, 1, 400)
end
local sharers = readSharers(mode)
if sharers.count > 0 and tonumber(redis.call('ZSCORE', KEYS[3], ARGV[1]) or 0) < 0 then
return
end
if permitsDiffer(sharers, mode) then
return -2, sharers.mode
end
if not mayShare(sharers, ARGV[1]) then
local remaining, sharer = msUntilFree(sharers, mode)
return 0, remaining, sharer, sharers.count
end
if hasWaiters() then
return 0, -2
end
end
table.insert(KEYS, 2, '')
table.insert(KEYS, 3, '')
local function eachLock(_, last)
local nth = (last or 0) + 1
KEYS[2], KEYS[3] = KEYS[nth * 2 + 2], KEYS[nth * 2 + 3]
return KEYS[2] and nth
end
for nth in eachLock do
local status, value, holder, count = obstacle()
if status then
return { status, value, now, nth, holder, count }
end
end
local function nextToken(tokens, now)
local last = tonumber(redis.call('SET', KEYS[1], now, 'EX', '86400', 'GET'))
if not last or not (last < 9e15) then
return now, 1
end
if last >= tonumber(now) then
local token = string.format('%.0f', last + 1)
redis.call('SET', KEYS[1], token, 'EX', '86400')
return token, 1
end
if tokens == '1' then
return now, 1
end
local first = math.max(last + 1, now - tokens + 1)
return string.format('%.0f', first), now - first + 1
end
local token = nextToken('1', now)
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
redis.call('SET', KEYS[2], entry .. ' ' .. token, 'PX', leaseMs)
end
end
for _ in eachLock do
lock(ARGV[1], math.max(redis.call('PTTL', KEYS[2]), tonumber(ARGV[2])), token)
end
return { 1, token, now }