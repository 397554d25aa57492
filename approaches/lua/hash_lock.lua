-- KEYS  1 lock (hash: holder -> how often it holds the lock)
-- ARGV  1 ttl_ms   2 holder
-- Returns -1 if the caller holds it, else the remaining ms of the other holder.
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return -1
end
return redis.call('PTTL', KEYS[1])
