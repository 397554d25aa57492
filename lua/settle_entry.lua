-- Ends a journal entry some of whose orders no longer hold units, because PostgreSQL refused them or because the entry
-- is of orders that end. Corrects Redis towards PostgreSQL and drops the entry in one step, so that a crash leaves
-- either both or neither.
--
-- KEYS  1 voucher (hash)   2 buyers (hash)   3 journal (stream)   4 repeats (hash)   5 ended (hash)
-- ARGV  1 journal id (empty: none)   2 epoch (empty: any)
--       then for each such order: units, order id, user, live order
--
-- epoch          of an entry of orders that end. If the voucher has another one, nothing changes: a rebuild has left
--                these orders out, or will. An order that was granted again is settled by its new entry
-- units          so many return to the stock; 0: PostgreSQL has none for it
-- live order     the user's, with quantity and key: replaces the buyer's field
--                empty: there is none, and the buyer's field is removed
--                '-': the same, and an order with an Idempotency-Key is kept for its repeats (see place_orders.lua)
--                '-20': the same, and 20 orders of the user have ended, which is all that one may have
--                '-;JOURNAL ID;HEIRS' or '-20;JOURNAL ID;HEIRS': the same, and HEIRS, 'user value,...', get as many of
--                its units, which do not return. JOURNAL ID: the entry by which it got its own unit; empty: none
--
-- Giving units back is not idempotent by itself. It is here, because it happens only while the buyer's field still
-- holds that very order id.
--
-- An order is corrected later if an heir's field holds another order, which an entry of its own will remove; or if the
-- entry that gives the order its own unit is still in the journal. Then this journal entry stays. The instance that
-- repeats this call asks PostgreSQL again first, since an heir may have ended meanwhile.
--
-- Returns the number of orders corrected; if some were not yet, -1 less the ms since the entry was made.

-- include: shared/voucher.lua

local kept_s = 25 * 3600 -- after the last of these orders, none counts any more
local corrected, blocked, promoted = 0, false, false
if ARGV[2] ~= '' and ARGV[2] ~= redis.call('HGET', KEYS[1], 'epoch') then
  return 0
end

local function is_taken(heirs)
  for user, order in string.gmatch(heirs, '([^ ,]+) ([^ ,]+)[^,]*') do
    local held = redis.call('HGET', KEYS[2], user)
    if held and string.sub(held, 1, 36) ~= order then
      return true
    end
  end
  return false
end

for i = 3, #ARGV, 4 do
  local units, order, user, live = tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local held = redis.call('HGET', KEYS[2], user)
  local had, came_by, heirs = string.match(live, '^%-(%d*);?([^;]*);?(.*)$')
  if had and had ~= '' then -- also where the order had only waited, and was no buyer's
    redis.call('HSET', KEYS[5], user, had)
  end
  local is_here = held and string.sub(held, 1, 36) == order
  if had and (is_here and is_taken(heirs) or not is_here and came_by ~= '' and
      #redis.call('XRANGE', KEYS[3], came_by, came_by) > 0) then
    blocked = true
  elseif is_here then
    if live ~= '' and not had then
      redis.call('HSET', KEYS[2], user, live)
    else
      redis.call('HDEL', KEYS[2], user)
    end
    local key = had and string.match(held, '^%S+ %d+ (%x+)$')
    if key then
      redis.call('HSET', KEYS[4], user .. ' ' .. key, held)
      redis.call('EXPIRE', KEYS[4], kept_s)
    end
    for user, value in string.gmatch(had and heirs or '', '([^ ,]+) ([^,]+)') do
      redis.call('HSET', KEYS[2], user, value)
      promoted = true
    end
    if units > 0 and redis.call('HINCRBY', KEYS[1], 'stock', units) == units then
      reopen(KEYS[1], clock_ms())
    end
    corrected = corrected + 1
  end
end
if promoted then -- a version of the buyers that no instance knows yet
  local fresh = redis.call('XADD', KEYS[3], '*', 'epoch', ARGV[2])
  redis.call('XDEL', KEYS[3], fresh)
  redis.call('HSET', KEYS[1], 'last', fresh)
end
if ARGV[1] ~= '' and blocked then
  return -1 - math.max(0, clock_ms() - tonumber(string.match(ARGV[1], '^%d+')))
end
if ARGV[1] ~= '' then
  redis.call('XDEL', KEYS[3], ARGV[1])
end
return corrected
