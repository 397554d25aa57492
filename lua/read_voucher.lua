-- Returns what Redis holds of a voucher, at one moment.
--
-- KEYS  1 voucher (hash)   2 buyers (hash)   3 journal (stream)
-- ARGV  1 run id of the Redis process that the caller is connected to   2 user, or nothing
--
-- Returns { state, epoch, last, stock, run, number of buyers, entries in the journal, the user's order, change number,
-- begin_ms, end_ms, age of the journal's oldest entry in ms, offer }. Missing values are empty; `run` is so, too,
-- unless it is the caller's, and change number, window and offer are four numbers. An empty journal's age is 0.

local function is_number(text)
  return text and #text <= 15 and string.find(text, '^%d+$')
end

local voucher = redis.call('HMGET', KEYS[1], 'state', 'epoch', 'last', 'stock', 'run', 'change', 'begin_ms',
  'end_ms', 'offer')
for i = 1, 9 do
  voucher[i] = voucher[i] or ''
end
if not (voucher[5] == ARGV[1] and is_number(voucher[6]) and is_number(voucher[7]) and is_number(voucher[8])
    and is_number(voucher[9])) then
  voucher[5] = ''
end
voucher[9], voucher[10], voucher[11], voucher[13] = voucher[6], voucher[7], voucher[8], voucher[9]
voucher[6] = redis.call('HLEN', KEYS[2])
voucher[7] = redis.call('XLEN', KEYS[3])
voucher[8] = ARGV[2] and redis.call('HGET', KEYS[2], ARGV[2]) or ''
voucher[12] = 0
if voucher[7] > 0 then
  local made_ms = string.match(redis.call('XRANGE', KEYS[3], '-', '+', 'COUNT', 1)[1][1], '^(%d+)-')
  local now = redis.call('TIME')
  voucher[12] = math.max(0, now[1] * 1000 + math.floor(now[2] / 1000) - tonumber(made_ms))
end
return voucher
