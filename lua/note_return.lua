-- Notes in the journal that orders of a voucher are to end and their units to return. Nothing else changes yet, except
-- for the move 'promoted', which takes units for users who wait, as many as there are: each under an id of its own,
-- which stands in the buyers as a user and as his order, so that settle_entry.lua gives the unit to the heir or back.
--
-- PostgreSQL decides, and settle_entry.lua applies it. So after a crash at any step recovery or a rebuild settles the
-- entry like a purchase's. `last` stays: it names the newest entry of purchases, and so the buyers that instances have
-- cached.
--
-- KEYS  1 voucher (hash)   2 journal (stream)   3 buyers (hash)
-- ARGV  1 run id of the Redis process that the caller is connected to
--       2 session that holds the entry   3 order ids, "id,id,..."
--       4 move (as return_orders() has it)   5 by whom   6 why
--
-- Returns { 'ok', epoch, journal id }, and of the move 'promoted' the number of units taken; or, as place_orders.lua,
-- { 'missing' }, { 'loading' }, { 'unsure' }; { 'none' } if there is no unit to take, or nothing is sold now.

-- include: shared/voucher.lua

local voucher = redis.call('HMGET', KEYS[1], 'state', 'epoch', 'run', 'stock')
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

local ids, taken = ARGV[3], nil
if ARGV[4] == 'promoted' then
  local stock, units = number(voucher[4]), {}
  if not stock or stock == 0 or state ~= 'open' then
    return { 'none' }
  end
  for id in string.gmatch(ids, '[^,]+') do
    if #units < stock then
      units[#units + 1] = id
      redis.call('HSET', KEYS[3], id, id)
    end
  end
  ids, taken = table.concat(units, ','), #units
  redis.call('HINCRBY', KEYS[1], 'stock', -taken)
end
local journal_id = redis.call('XADD', KEYS[2], '*', 'epoch', epoch, 'returns', ids, 'move', ARGV[4], 'by', ARGV[5],
  'why', ARGV[6], 'session', ARGV[2])
return { 'ok', epoch, journal_id, taken }
