-- KEYS  1 lock
-- ARGV  1 ttl_ms   2 holder
-- Returns 1 if the caller still holds it.
if redis.call('GET', KEYS[1]) ~= ARGV[2] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[1])
