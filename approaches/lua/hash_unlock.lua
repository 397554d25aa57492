-- KEYS  1 lock   2 channel of the waiting clients
-- ARGV  1 holder
-- Returns how often it is still held; -1 if the caller does not hold it.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return -1
end
local left = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
if left <= 0 then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', KEYS[2], 'free')
end
return left
