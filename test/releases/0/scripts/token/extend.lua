local function modeOf(entry)
return string.match(entry, ' (.*)')
end
local function shareTime()
return 1e13 - redis.call('PTTL', KEYS[1])
end
local function keepQueue(ms)
local left = redis.call('PTTL', KEYS[1])
if left >= tonumber(ms) then
return left
end
local longer = 2 * math.max(ms, 60000)
local shares = redis.call('ZRANGE', KEYS[1], '-inf', '(0', 'BYSCORE', 'WITHSCORES')
for i = 1, #shares, 2 do
redis.call('ZADD', KEYS[1], shares[i + 1] + longer - left, shares[i])
end
redis.call('PEXPIRE', KEYS[1], longer)
return longer
end
local function share(entry, leaseMs)
redis.call('ZADD', KEYS[1], 'NX', 0, entry)
local left = keepQueue(leaseMs)
if redis.call('ZADD', KEYS[1], 'LT', 'CH', -(1e13 - left + leaseMs), entry) == 0 then
redis.call('PEXPIRE', KEYS[1], left)
end
end
local function extendEntry(entry)
if not modeOf(entry) then
local held = redis.call('GET', KEYS[1])
local ours = entry .. ' '
if not held or string.sub(held, 1, #ours) ~= ours then
return 0
end
redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])))
return 1
end
local now = shareTime()
if -(redis.call('ZSCORE', KEYS[1], entry) or 0) <= now then
return 0
end
redis.call('PEXPIRE', KEYS[1], 1e13 - now)
share(entry, ARGV[2])
return 1
end
return extendEntry(ARGV[1])