--- @computed-keys
--- How many locks a script for several is given.
local lockCount = (#KEYS - 1) / 3
