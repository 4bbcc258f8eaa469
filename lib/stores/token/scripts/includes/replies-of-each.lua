--[[ Calls `run` with the entry of each lock in turn, and appends its results to `replies`. An error concerns its lock
  alone: it is the reply. A read-only server refuses the whole script, so that the client sees it and may reconnect.
  @param each iterates over the locks
  @param attempts what distinguishes the entries: one word for each lock ]]
local function repliesOfEach(each, attempts, replies, run)
  local nextAttempt = string.gmatch(attempts, '%S+')
  for _ in each do
    local succeeded, reply = pcall(run, args.instance .. nextAttempt() .. args.rest)
    if not succeeded then
      reply = type(reply) == 'table' and reply or redis.error_reply(reply)
      if string.find(reply.err, 'READONLY', 1, true) then
        error(reply, 0)
      end
    end
    table.insert(replies, reply)
  end
  return replies
end
