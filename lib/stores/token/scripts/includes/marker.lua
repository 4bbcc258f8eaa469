--[[ The value of a lock that others share. It expires with the longest share. A client that knows no sharers must not
  find the lock free beside them. ]]
local marker = 'v2-*'
