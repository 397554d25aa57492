-- Notes in the journal that orders of a voucher are to end and their units to return. Nothing else changes yet:
-- PostgreSQL decides, and settle_entry.lua applies it. So after a crash at any step recovery or a rebuild settles the
-- entry like a purchase's. `last` stays: it names the newest entry of purchases, and so the buyers that instances have
-- cached.
--
-- KEYS  1 voucher (hash)   2 journal (stream)
-- ARGV  1 run id of the Redis process that the caller is connected to
--       2 session that holds the entry   3 order ids, "id,id,..."
--       4 move (as return_orders() has it)   5 by whom   6 why
--
-- Returns { 'ok', epoch, journal id }, or, as place_orders.lua, { 'missing' }, { 'loading' }, { 'unsure' }.

local voucher = redis.call('HMGET', KEYS[1], 'state', 'epoch', 'run')
local state, epoch = voucher[1], voucher[2]
if not state then
  return { 'missing' }
end
if state ~= 'open' and state ~= 'paused' and state ~= 'closed' then
  return { 'loading' }
end
if voucher[3] ~= ARGV[1] or not (epoch and #epoch <= 15 and string.find(epoch, '^%d+$')) then
  return { 'unsure' }
end
local journal_id = redis.call('XADD', KEYS[2], '*', 'epoch', epoch, 'returns', ARGV[3], 'move', ARGV[4], 'by', ARGV[5],
  'why', ARGV[6], 'session', ARGV[2])
return { 'ok', epoch, journal_id }
