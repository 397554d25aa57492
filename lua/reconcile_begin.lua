-- First step of rebuilding a voucher from PostgreSQL: closes it to buyers under a new epoch and forgets
-- the old buyers. An epoch that is not newer changes nothing: somebody else is at it, or has been.
--
-- KEYS  1 voucher (hash)   2 buyers (hash)
-- ARGV  1 epoch
--
-- Returns 1 if the voucher is ours to rebuild, else 0.

local epoch = redis.call('HGET', KEYS[1], 'epoch')
if epoch and tonumber(epoch) and tonumber(epoch) >= tonumber(ARGV[1]) then
  return 0
end
redis.call('HSET', KEYS[1], 'state', 'loading', 'epoch', ARGV[1])
redis.call('UNLINK', KEYS[2])
return 1
