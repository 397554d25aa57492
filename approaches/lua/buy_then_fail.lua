-- KEYS  1 stock   2 sold
-- ARGV  1 quantity
-- Returns 1: bought, 0: sold out. If the quantity is no number it fails, after it has taken the units.
if (tonumber(redis.call('GET', KEYS[1])) or 0) <= 0 then
  return 0
end
redis.call('DECR', KEYS[1])
redis.call('INCRBY', KEYS[2], ARGV[1])
return 1
