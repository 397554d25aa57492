-- Releases a lock if the caller still holds it: after its TTL it may belong to another owner.
--
-- KEYS  1 lock
-- ARGV  1 holder
-- Returns 1: released.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
