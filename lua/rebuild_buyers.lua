-- Middle step of rebuilding a voucher: adds one chunk of buyers, and of orders that ended and may be repeated, while the
-- voucher is still ours.
--
-- KEYS  1 voucher (hash)   2 buyers (hash)   3 repeats (hash)
-- ARGV  1 epoch   2 number of buyers in the chunk   then user, order, user, order ...: the buyers first, then
--       "user key", order ... of those that ended
--
-- Returns 1, or 0 if another has taken over.

local day_s = 86400
local voucher = redis.call('HMGET', KEYS[1], 'state', 'epoch')
if voucher[1] ~= 'loading' or voucher[2] ~= ARGV[1] then
  return 0
end
local first_ended = 3 + 2 * tonumber(ARGV[2])
if first_ended > 3 then
  redis.call('HSET', KEYS[2], unpack(ARGV, 3, first_ended - 1))
end
if first_ended <= #ARGV then
  redis.call('HSET', KEYS[3], unpack(ARGV, first_ended))
  redis.call('EXPIRE', KEYS[3], day_s)
end
return 1
