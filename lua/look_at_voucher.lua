-- What Redis holds of a voucher, at one moment.
--
-- KEYS  1 voucher (hash)   2 buyers (hash)   3 journal (stream)
-- ARGV  1 user, or nothing
--
-- Returns { state, epoch, last, stock, run, number of buyers, entries in the journal, the user's order }; what is
-- missing is empty, and so is `run` where the window is no two numbers.

local function is_number(text)
  return text and #text <= 15 and string.find(text, '^%d+$')
end

local voucher = redis.call('HMGET', KEYS[1], 'state', 'epoch', 'last', 'stock', 'run', 'begin_ms', 'end_ms')
for i = 1, 5 do
  voucher[i] = voucher[i] or ''
end
if not (is_number(voucher[6]) and is_number(voucher[7])) then
  voucher[5] = ''
end
voucher[6] = redis.call('HLEN', KEYS[2])
voucher[7] = redis.call('XLEN', KEYS[3])
voucher[8] = ARGV[1] and redis.call('HGET', KEYS[2], ARGV[1]) or ''
return voucher
