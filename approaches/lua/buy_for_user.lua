-- KEYS  1 set of buyers
-- ARGV  1 user
-- Returns 1 the first time, then 0.
return redis.call('SADD', KEYS[1], ARGV[1])
