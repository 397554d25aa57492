-- The end of a sale in Redis: removes its buyers and its journal. A marker stays, so that a request does not load the
-- voucher again. From now on PostgreSQL answers a winner who repeats.
--
-- KEYS  1 voucher (hash)   2 buyers (hash)   3 journal (stream)   4 repeats (hash)   5 ended (hash)
-- ARGV  1 epoch of the rebuild that settled it
--
-- Returns 1, or 0 if another rebuild has taken over or the journal is not empty.

local voucher = redis.call('HMGET', KEYS[1], 'state', 'epoch')
if voucher[1] ~= 'loading' or voucher[2] ~= ARGV[1] or redis.call('XLEN', KEYS[3]) > 0 then
  return 0
end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5])
redis.call('HSET', KEYS[1], 'state', 'retired', 'epoch', ARGV[1])
return 1
