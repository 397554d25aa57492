-- Places one order, for the Go and the Node contender: the decisions of lua/place_orders.lua for one user in a call,
-- without the service's other functions (batches, rebuilds, proofs of loss).
--
-- KEYS  1 voucher (hash)   2 buyers (hash: user -> order id)   3 journal (stream)
-- ARGV  1 user   2 order id
--
-- Returns { 'PLACED', journal id, epoch, slot }; { 'ALREADY_ORDERED', order id }; or one of { 'NOT_STARTED' },
-- { 'ENDED' }, { 'SOLD_OUT' }, { 'UNKNOWN_VOUCHER' }.

local voucher = redis.call('HMGET', KEYS[1], 'state', 'stock', 'begin_ms', 'end_ms', 'epoch', 'slot')
if not voucher[1] then
  return { 'UNKNOWN_VOUCHER' }
end
local order = redis.call('HGET', KEYS[2], ARGV[1])
if order then
  return { 'ALREADY_ORDERED', order }
end
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
if voucher[1] ~= 'open' or now_ms >= tonumber(voucher[4]) then
  return { 'ENDED' }
end
if now_ms < tonumber(voucher[3]) then
  return { 'NOT_STARTED' }
end
if tonumber(voucher[2]) <= 0 then
  return { 'SOLD_OUT' }
end
redis.call('HINCRBY', KEYS[1], 'stock', -1)
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
return { 'PLACED', redis.call('XADD', KEYS[3], '*', 'order', ARGV[2], 'user', ARGV[1]), voucher[5], voucher[6] }
