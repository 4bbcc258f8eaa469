--[[ Returns how many entries wait before an entry. Returns nothing if the entry does not wait, or if the server refuses
  the commands. ]]
local function waitersBefore(entry)
  local ticket = redis.pcall('ZSCORE', keys.queue, entry)
  local before = type(ticket) == 'string' and redis.pcall('ZCOUNT', keys.queue, '(0', '(' .. ticket)
  return type(before) == 'number' and before or nil
end
