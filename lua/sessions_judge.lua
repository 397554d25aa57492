-- Which sessions live: those whose time in the list of session_keep.lua is not over.
--
-- KEYS  1 living sessions (sorted set: session id -> when it expires, in ms by Redis's clock)
-- ARGV  session ids
--
-- Returns 1 or 0 for each of them, in order.

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local lives = {}
for i, id in ipairs(ARGV) do
  local expires_ms = redis.call('ZSCORE', KEYS[1], id)
  lives[i] = (expires_ms and tonumber(expires_ms) > now_ms) and 1 or 0
end
return lives
