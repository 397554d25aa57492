-- KEYS  1 lock (hash: holder -> how often it has it)
-- ARGV  1 ttl_ms   2 holder
-- Returns -1 if it is ours, else the ms that the other one has left.
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return -1
end
return redis.call('PTTL', KEYS[1])
