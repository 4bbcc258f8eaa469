--- How many entries one run serves or removes, because Redis runs one script at a time. Any later request goes on.
local steps = 128
