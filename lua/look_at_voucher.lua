-- What Redis holds of a voucher, at one moment.
--
-- KEYS  1 voucher (hash)   2 buyers (hash)   3 journal (stream)
-- ARGV  1 user, or nothing
--
-- Returns { state, epoch, last, stock, run, number of buyers, entries in the journal, ms since the voucher was
-- rebuilt, or -1, the user's order id }; what is missing is empty, and so is `run` where the terms are no numbers.

local function number(text)
  return text and #text <= 15 and string.find(text, '^%d+$') and tonumber(text)
end

local voucher = redis.call('HMGET', KEYS[1], 'state', 'epoch', 'last', 'stock', 'run', 'rebuilt_ms', 'begin_ms', 'end_ms')
for i = 1, 5 do
  voucher[i] = voucher[i] or ''
end
if not (number(voucher[7]) and number(voucher[8])) then
  voucher[5] = ''
end
local rebuilt_ms = number(voucher[6])
voucher[6] = redis.call('HLEN', KEYS[2])
voucher[7] = redis.call('XLEN', KEYS[3])
voucher[8] = rebuilt_ms and redis.call('TIME')[1] * 1000 - rebuilt_ms or -1
voucher[9] = ARGV[1] and redis.call('HGET', KEYS[2], ARGV[1]) or ''
return voucher
