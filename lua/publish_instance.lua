-- Writes which instance a session belongs to, and removes the texts of sessions that no longer live.
--
-- KEYS  1 living sessions (sorted set)   2 instances (hash: session id -> text)
-- ARGV  1 session id   2 text
--
-- Returns 1.

local found = redis.call('TYPE', KEYS[2]).ok
if found ~= 'none' and found ~= 'hash' then
  redis.call('UNLINK', KEYS[2])
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
local noted = redis.call('HGETALL', KEYS[2])
for i = 1, #noted, 2 do
  if not redis.call('ZSCORE', KEYS[1], noted[i]) then
    redis.call('HDEL', KEYS[2], noted[i])
  end
end
return 1
