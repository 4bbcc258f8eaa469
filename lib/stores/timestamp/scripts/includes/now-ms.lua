--- The server's time in ms since 1970.
local nowMs = redis.call('TIME')
nowMs = nowMs[1] * 1000 + math.floor(nowMs[2] / 1000)
