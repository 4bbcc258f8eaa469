--[[ Calls `run` with the entry of each lock in turn, and appends its results to `replies`. An error concerns its lock
  alone: it is the reply.
  @param each iterates over the locks
  @param attempts what distinguishes the entries: one word for each lock ]]
local function repliesOfEach(each, attempts, replies, run)
  local nextAttempt = string.gmatch(attempts, '%S+')
  for _ in each do
    local succeeded, reply = pcall(run, args.instance .. nextAttempt() .. args.rest)
    if not succeeded and type(reply) ~= 'table' then
      reply = redis.error_reply(reply)
    end
    table.insert(replies, reply)
  end
  return replies
end
