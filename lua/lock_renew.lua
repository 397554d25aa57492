-- Gives a lock a new TTL, only if it is still held under the caller's token.
--
-- KEYS  1 lock
-- ARGV  1 token   2 ttl_ms
--
-- Returns 1, or 0: it is lost.

return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PEXPIRE', KEYS[1], ARGV[2]) or 0
