-- Middle step of rebuilding a voucher: adds one chunk of buyers, while the voucher is still ours.
--
-- KEYS  1 voucher (hash)   2 buyers (hash)
-- ARGV  1 epoch            then user, order id, user, order id ...
--
-- Returns 1, or 0 if another has taken over.

local voucher = redis.call('HMGET', KEYS[1], 'state', 'epoch')
if voucher[1] ~= 'loading' or voucher[2] ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[2], unpack(ARGV, 2))
return 1
