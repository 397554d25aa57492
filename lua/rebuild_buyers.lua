-- Middle step of rebuilding a voucher, while it is still ours: adds one chunk. It has buyers, orders that ended and may
-- be repeated, and users who have had as many orders as one may have.
--
-- KEYS  1 voucher (hash)   2 buyers (hash)   3 repeats (hash)   4 ended (hash)
-- ARGV  1 epoch   2 number of buyers in the chunk   3 number of orders that ended
--       then user, order ... of the buyers
--       then "user key", order ... of the orders that ended
--       then user, how many orders have ended ...: a blank and more text may follow the user
--
-- Returns 1, or 0 if another rebuild has taken over.

local kept_s = 25 * 3600 -- as in settle_entry.lua
local voucher = redis.call('HMGET', KEYS[1], 'state', 'epoch')
if voucher[1] ~= 'loading' or voucher[2] ~= ARGV[1] then
  return 0
end
local first_repeat = 4 + 2 * tonumber(ARGV[2])
local first_number = first_repeat + 2 * tonumber(ARGV[3])
if first_repeat > 4 then
  redis.call('HSET', KEYS[2], unpack(ARGV, 4, first_repeat - 1))
end
if first_number > first_repeat then
  redis.call('HSET', KEYS[3], unpack(ARGV, first_repeat, first_number - 1))
  redis.call('EXPIRE', KEYS[3], kept_s)
end
for i = first_number, #ARGV, 2 do
  redis.call('HSET', KEYS[4], string.match(ARGV[i], '^%S+'), ARGV[i + 1])
end
return 1
