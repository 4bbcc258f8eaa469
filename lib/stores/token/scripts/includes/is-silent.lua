--- @include ./prompted-at.lua
--- Returns whether a waiter with that score was prompted 250 ms ago, and has not repeated its request since.
local function isSilent(score, now)
  local prompted = score % 1
  return prompted > 0 and (promptedAt(now) - prompted) * 1024 % 1023 >= 4
end
