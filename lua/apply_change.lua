-- Brings a voucher up to date with what operators changed: its state, its window, and the units that were added.
--
-- KEYS  1 voucher (hash)
-- ARGV  1 run id of the Redis process that the caller is connected to
--       2 epoch   3 change number that it has   4 change number that it gets
--       5 state ('open', 'paused' or 'closed')   6 begin_ms   7 end_ms
--       8 units that were added between the two, and not yet here
--       9 hold_ms, see settle_entry.lua
--
-- Returns one word, and where it is `other` the change number that the voucher has:
--   applied   it is up to date now
--   already   it was: it has that change number, or a newer one
--   other     it has not the change number that the caller took it for, or is of another epoch: nothing is done
--   missing, loading, unsure   it is not there, not opened, or not to be relied on: a rebuild brings it up to date
--
-- Units are added once for each change number, because the number they are added up from must be the one that is there,
-- and moves with them in one step. What was taken away has left before (take_units.lua).

local function number(text) -- of at most 15 digits, which are exact in Lua; nil: it is none
  return text and #text <= 15 and (text == '0' or string.find(text, '^[1-9]%d*$')) and tonumber(text)
end

local voucher = redis.call('HMGET', KEYS[1], 'state', 'epoch', 'change', 'run', 'stock')
local state, change, stock = voucher[1], number(voucher[3]), number(voucher[5])
if not state then
  return { 'missing' }
end
if state ~= 'open' and state ~= 'paused' and state ~= 'closed' then
  return { 'loading' }
end
if voucher[4] ~= ARGV[1] or not (change and stock and number(voucher[2])) then
  return { 'unsure' }
end
if voucher[2] == ARGV[2] and change >= tonumber(ARGV[4]) then
  return { 'already' }
end
if voucher[2] ~= ARGV[2] or voucher[3] ~= ARGV[3] then
  return { 'other', voucher[3] }
end

local units = tonumber(ARGV[8])
if units > 0 and stock == 0 then
  local time = redis.call('TIME')
  redis.call('HSET', KEYS[1], 'returned_ms', time[1] * 1000 + math.floor(time[2] / 1000), 'hold_ms', ARGV[9])
end
redis.call('HSET', KEYS[1], 'state', ARGV[5], 'begin_ms', ARGV[6], 'end_ms', ARGV[7],
  'stock', string.format('%.0f', stock + units), 'change', ARGV[4])
return { 'applied' }
