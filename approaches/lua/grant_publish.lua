-- KEYS  1 stock   2 set of buyers   3 channel of orders
-- ARGV  1 user
-- Returns 1: granted, 0: sold out, 2: has one.
if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then
  return 2
end
if (tonumber(redis.call('GET', KEYS[1])) or 0) <= 0 then
  return 0
end
redis.call('DECR', KEYS[1])
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('PUBLISH', KEYS[3], ARGV[1])
return 1
