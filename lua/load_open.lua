-- Last step of loading a voucher: writes its stock and terms and opens it, if the loading is still ours.
--
-- KEYS  1 voucher (hash)
-- ARGV  1 epoch   2 stock   3 begin_ms   4 end_ms   5 state ('open' or 'closed')
--
-- Returns 1, or 0 if another loading has taken over.

local voucher = redis.call('HMGET', KEYS[1], 'state', 'epoch')
if voucher[1] ~= 'loading' or voucher[2] ~= ARGV[1] then
  return 0
end
-- A new value of `last` tells every instance that what it remembers of the buyers is out of date.
redis.call('HSET', KEYS[1], 'stock', ARGV[2], 'begin_ms', ARGV[3], 'end_ms', ARGV[4], 'last', 'epoch-' .. ARGV[1],
  'state', ARGV[5])
return 1
