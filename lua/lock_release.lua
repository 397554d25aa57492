-- Releases a lock, only if it is still held under the caller's token: after its TTL it may be another's.
--
-- KEYS  1 lock
-- ARGV  1 token
--
-- Returns 1, or 0: it was not held any more.

return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0
