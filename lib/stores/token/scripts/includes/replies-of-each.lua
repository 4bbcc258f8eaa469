--[[ Calls `run` for each lock in turn, and returns its results. An error concerns its lock alone: it is the reply. A
  read-only server refuses the whole script, so that the client sees it and may reconnect. ]]
local function repliesOfEach(each, run)
  local replies = {}
  for nth in each do
    local succeeded, reply = pcall(run)
    if not succeeded then
      reply = type(reply) == 'table' and reply or redis.error_reply(reply)
      if string.find(reply.err, 'READONLY', 1, true) then
        error(reply, 0)
      end
    end
    replies[nth] = reply
  end
  return replies
end
