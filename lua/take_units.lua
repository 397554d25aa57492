-- Takes units out of a voucher's stock before PostgreSQL does, so that no buyer gets them any more. All or nothing.
--
-- KEYS  1 voucher (hash)
-- ARGV  1 run id of the Redis process that the caller is connected to   2 units
--
-- Returns { 'taken', what is left, epoch }: PostgreSQL takes them under that epoch, or not at all; or { 'short', what
-- is left }; or { 'missing' }, { 'loading' }, { 'unsure' }: it is not there, not opened, or not to be relied on.

-- include: shared/voucher.lua

local voucher = redis.call('HMGET', KEYS[1], 'state', 'epoch', 'run', 'stock')
local state, stock, units = voucher[1], number(voucher[4]), tonumber(ARGV[2])
if not state then
  return { 'missing' }
end
if state ~= 'open' and state ~= 'paused' and state ~= 'closed' then
  return { 'loading' }
end
if voucher[3] ~= ARGV[1] or not (stock and number(voucher[2])) then
  return { 'unsure' }
end
if stock < units then
  return { 'short', voucher[4] }
end
local left = string.format('%.0f', stock - units)
redis.call('HSET', KEYS[1], 'stock', left)
return { 'taken', left, voucher[2] }
