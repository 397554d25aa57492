-- Releases locks, each only if it is still held under the caller's token: after its TTL ran out a
-- lock may be another's by now.
--
-- KEYS  the locks
-- ARGV  1 token
--
-- Returns the number released.

local released = 0
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[1] then
    released = released + redis.call('DEL', key)
  end
end
return released
