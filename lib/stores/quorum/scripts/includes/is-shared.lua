--[[ Returns whether the value of a lock is that of a shared lock. A shared lock's value is `*;`, then for each sharer
  `<owner> <round> <token> <end>;`. The end of a sharer's lease is in ms of the server time. The key lives as long as
  the last sharer's lease. Scripts for an exclusive lock, including those of older versions, read such a value as
  another owner's lock. ]]
local function isShared(held)
  return string.sub(held, 1, 2) == '*;'
end
