--- @include ../../../../redis/scripts/includes/now.lua
--- The server's time in ms. Numbers of 13 digits are exact, but `..` writes them in another way: never use it.
local nowMs = math.floor(now / 1000)
