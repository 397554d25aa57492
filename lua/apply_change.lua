-- Applies operators' changes to a voucher: its state, its window, its offer, and the units that were added.
--
-- KEYS  1 voucher (hash)
-- ARGV  1 run id of the Redis process that the caller is connected to
--       2 epoch   3 change number that it has   4 change number that it gets
--       5 state ('open', 'paused' or 'closed')   6 begin_ms   7 end_ms
--       8 units that were added between the two, and not yet here
--       9 offer
--
-- Returns one word, and after `other` the change number that the voucher has:
--   applied   it is up to date now
--   already   it was: it has that change number, or a newer one
--   other     it has another change number than the caller expects, or is of another epoch: nothing is done
--   missing, loading, unsure   it is not there, not opened, or not to be relied on: a rebuild brings it up to date
--
-- Units are added once for each change number. The voucher must have the number that they are counted from, and one
-- step changes both. Units that were taken away have left before (take_units.lua).

-- include: shared/voucher.lua

local voucher = redis.call('HMGET', KEYS[1], 'state', 'epoch', 'change', 'run', 'stock', 'begin_ms', 'end_ms')
local state, change, stock = voucher[1], number(voucher[3]), number(voucher[5])
local begin_ms, end_ms = number(voucher[6]), number(voucher[7])
if not state then
  return { 'missing' }
end
if state ~= 'open' and state ~= 'paused' and state ~= 'closed' then
  return { 'loading' }
end
if voucher[4] ~= ARGV[1] or not (change and stock and begin_ms and end_ms and number(voucher[2])) then
  return { 'unsure' }
end
if voucher[2] == ARGV[2] and change >= tonumber(ARGV[4]) then
  return { 'already' }
end
if voucher[2] ~= ARGV[2] or voucher[3] ~= ARGV[3] then
  return { 'other', voucher[3] }
end

-- The sale reopens if it refused before, and now sells or only waits for its start; not if that start is the same as
-- before, or later.
local units, now_ms = tonumber(ARGV[8]), clock_ms()
local was = refusal_of(state, begin_ms, end_ms, now_ms)
local is = refusal_of(ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]), now_ms)
local differs = was ~= is or tonumber(ARGV[6]) < begin_ms
if was and (not is or is == 'n') and differs or stock == 0 and units > 0 then
  reopen(KEYS[1], now_ms)
end
redis.call('HSET', KEYS[1], 'state', ARGV[5], 'begin_ms', ARGV[6], 'end_ms', ARGV[7],
  'stock', string.format('%.0f', stock + units), 'change', ARGV[4], 'offer', ARGV[9])
return { 'applied' }
