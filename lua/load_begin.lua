-- First step of loading a voucher from PostgreSQL: closes it to buyers under a new epoch and forgets
-- the old buyers. An epoch that is not newer changes nothing: somebody else is loading it, or has.
--
-- KEYS  1 voucher (hash)   2 buyers (hash)
-- ARGV  1 epoch
--
-- Returns 1 if the loading is ours, else 0.

local epoch = redis.call('HGET', KEYS[1], 'epoch')
if epoch and tonumber(epoch) >= tonumber(ARGV[1]) then
  return 0
end
redis.call('HSET', KEYS[1], 'state', 'loading', 'epoch', ARGV[1])
redis.call('UNLINK', KEYS[2])
return 1
