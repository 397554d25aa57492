-- Places one order for each of many users of one voucher, each with all its units or none: one call for a batch.
--
-- KEYS  1 voucher (hash)   2 buyers (hash: user -> order)   3 journal (stream)
--       4 repeats (hash: "user key" -> order): orders that ended and had come with an Idempotency-Key
--       5 ended (hash: user -> how many of the user's orders have ended), of users that had all they may have
--       6 and further: buyers of the other vouchers in the scope, of which a user has one order altogether
-- ARGV  1 most entries the journal may hold
--       2 run id of the Redis process that the caller is connected to
--       3 'new', or 'again': orders that were granted before and may have been lost with Redis's data
--       4 epoch and   5 `last` as the caller has seen them last; 0 and empty: never
--       6 session that holds what is granted, until it is settled
--       7 '-': all orders have one unit and no key; or for each order "quantity[ key],..."
--       8 offer: of 'new' orders the one that they were checked by, of others the one that they were granted under
--       9 most orders of a user, the ended ones included
--       10, 11, 12, 13 ...   user, order id, user, order id ...
--
-- Returns { 'ok', now_ms, begin_ms, epoch, last, journal id, codes, more ... }, where codes has one for each user:
--   p placed   a already ordered   s sold out   n not started   e ended   u paused   f no room in the journal
--   b already ordered: another voucher of the scope
--   h held: the sale reopened a moment ago, and no instance caches this (see shared/voucher.lua)
--   m fewer units are left than the order asks for
--   t the user has had as many orders as one may have: checked last, so that memory and Redis refuse alike
--   k already ordered under the same key: that order is meant   d the same, and that order has ended
--   q the key was used for an order of another quantity
--   o the voucher has another offer: see below
-- `more` has that order's id for each 'a', 'k', 'd' and 'q', the id and its voucher's for each 'b', and the units left
-- for each 'm', in order. `last` is the newest journal id the voucher has ever had: as long as it stays the same, there
-- is no new buyer.
--
-- If the voucher has another offer than the call, no order is granted. The script returns { 'other', now_ms, begin_ms,
-- epoch, last, the voucher's offer, codes, more ... }, with an 'o' for each user who would have been granted one. All
-- others get their usual code, above all users who have an order: P6 does not depend on terms. Orders that were
-- granted before are granted again whatever the offer is now.
--
-- If the voucher cannot sell at all, the script returns { 'missing' }, { 'loading' }, or { 'unsure' }: it was opened
-- under another Redis process, which may have lost later data, it has gone backwards, or its values are impossible.
--
-- An order in the hashes is "id[ quantity[ key]]", as after the user in the journal. The quantity is there if it is
-- more than one, or if the order came with an Idempotency-Key.
--
-- Winners are checked for first, and get their order id even after sell-out or the end (P6). An order that was granted
-- once in time is granted again at any time, and needs no new room.
-- This script also takes the claim on a user: while `buyers` names an order of the user, granted or settled, no other
-- is granted. An error does not undo what a script has written, so everything is decided before the first write.

-- Every client with write access to Redis can write anything. So values are checked before use, as strictly as grant.c
-- checks the reply, because a unit that is granted in an unreadable reply is lost.

-- include: shared/voucher.lua

local function at(id) -- the two numbers of a journal id; a label like epoch-7 comes before all of them; nil: neither
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  if ms then
    return number(ms), number(seq)
  end
  return (id == '' or string.find(id, '^epoch%-%d+$')) and 0, 0
end

local voucher = redis.call('HMGET', KEYS[1], 'state', 'stock', 'begin_ms', 'end_ms', 'epoch', 'last', 'run',
  'reopened_ms', 'cache_ms', 'offer')
local state, stock = voucher[1], number(voucher[2])
local begin_ms, end_ms = number(voucher[3]), number(voucher[4])
local epoch, last, again = voucher[5], voucher[6], ARGV[3] == 'again'
if not state then
  return { 'missing' }
end
if state ~= 'open' and state ~= 'paused' and state ~= 'closed' then
  return { 'loading' }
end
local offer, other = voucher[10], not again and voucher[10] ~= ARGV[8]
if voucher[7] ~= ARGV[2] or not (stock and begin_ms and end_ms and number(epoch) and last and number(offer)) then
  return { 'unsure' }
end
local last_ms, last_seq = at(last)
if last == '' or not (last_ms and last_seq) then
  return { 'unsure' }
end

local seen_epoch, seen_last = tonumber(ARGV[4]), ARGV[5]
if number(epoch) < seen_epoch then
  return { 'unsure' }
end
if number(epoch) == seen_epoch and last ~= seen_last then
  local seen_ms, seen_seq = at(seen_last)
  if seen_ms and seen_seq and (last_ms < seen_ms or (last_ms == seen_ms and last_seq < seen_seq)) then
    return { 'unsure' }
  end
end

local now_ms = clock_ms()
local reopened_ms = number(voucher[8])
local clock_went_back = reopened_ms and now_ms < reopened_ms
local refusal
if not again then
  local held = is_held(clock_went_back and now_ms or reopened_ms, number(voucher[9]), now_ms)
  refusal = held and 'h' or refusal_of(state, begin_ms, end_ms, now_ms)
end
local full = not again and redis.call('XLEN', KEYS[3]) >= tonumber(ARGV[1])

local users = {}
for i = 10, #ARGV, 2 do
  users[#users + 1] = ARGV[i]
end
local bought = redis.call('HMGET', KEYS[2], unpack(users))
local elsewhere = {}
for k = 6, #KEYS do
  for i, order in ipairs(redis.call('HMGET', KEYS[k], unpack(users))) do
    elsewhere[i] = elsewhere[i] or order and { order, string.match(KEYS[k], '{(%d+)}:buyers$') }
  end
end
local quantities, keys, repeats = {}, {}, {}
if ARGV[7] ~= '-' then
  for detail in string.gmatch(ARGV[7], '[^,]+') do
    local quantity, key = string.match(detail, '^(%d+) ?(%x*)$')
    quantities[#quantities + 1] = tonumber(quantity)
    keys[#quantities] = key ~= '' and key
  end
  local fields = {}
  for i, user in ipairs(users) do
    fields[i] = user .. ' ' .. (keys[i] or '')
  end
  repeats = not again and redis.call('HMGET', KEYS[4], unpack(fields)) or {}
end
-- Mostly no such user exists, and then the key does not either.
local may_sell = not (again or refusal or stock == 0)
local had = may_sell and redis.call('EXISTS', KEYS[5]) == 1 and redis.call('HMGET', KEYS[5], unpack(users)) or {}
local most = tonumber(ARGV[9])

-- How an order that exists answers a request.
local function meet(order, quantity, key, same)
  local its_quantity, its_key = string.match(order, '^%S+ (%d+) (%x+)$')
  if not key or its_key ~= key then
    return 'a'
  end
  return tonumber(its_quantity) == quantity and same or 'q'
end

-- A key counts for a day from the order's commit. An id begins with the time of its request, 12 hex digits. The extra
-- hour covers that time and the clocks: PostgreSQL has released every key that is forgotten here.
local kept_ms = 25 * 3600000
local function is_kept(order)
  local high, low = string.match(order, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-')
  return high and now_ms < tonumber(high .. low, 16) + kept_ms
end

local codes, more = {}, {}
local winners, journal_orders, seen = {}, {}, {}
for i, user in ipairs(users) do
  local order = bought[i] or seen[user]
  local quantity, key = quantities[i] or 1, keys[i]
  local code = order and (key and meet(order, quantity, key, 'k') or 'a')
  local earlier = key and (not order or code == 'a') and repeats[i]
  if earlier and is_kept(earlier) then -- the first answer again, also if another order lives
    local met = meet(earlier, quantity, key, 'd')
    if met ~= 'a' then
      order, code = earlier, met
    end
  end
  if order then
    codes[i] = code
    more[#more + 1] = string.sub(order, 1, 36)
  elseif elsewhere[i] then
    codes[i] = 'b'
    more[#more + 1] = string.sub(elsewhere[i][1], 1, 36)
    more[#more + 1] = elsewhere[i][2]
  elseif refusal then
    codes[i] = refusal
  elseif stock == 0 then
    codes[i] = 's'
  elseif stock < quantity then
    codes[i] = 'm'
    more[#more + 1] = stock
  elseif full then
    codes[i] = 'f'
  elseif had[i] and (number(had[i]) or 0) >= most then
    codes[i] = 't'
  elseif other then
    codes[i] = 'o'
  else
    codes[i] = 'p'
    stock = stock - quantity
    order = ARGV[2 * i + 9]
    local detail = key and ' ' .. quantity .. ' ' .. key or quantity > 1 and ' ' .. quantity or ''
    journal_orders[#journal_orders + 1] = order .. ' ' .. user .. detail
    order = order .. detail
    seen[user] = order
    winners[#winners + 1] = user
    winners[#winners + 1] = order
  end
end

if clock_went_back then
  reopen(KEYS[1], now_ms)
end
local journal_id = ''
if #winners > 0 then
  journal_id = redis.call('XADD', KEYS[3], '*', 'epoch', epoch, 'orders', table.concat(journal_orders, ','),
    'session', ARGV[6], 'offer', ARGV[8])
  redis.call('HSET', KEYS[2], unpack(winners))
  redis.call('HSET', KEYS[1], 'stock', stock, 'last', journal_id)
  last = journal_id
end

return { other and 'other' or 'ok', now_ms, begin_ms, epoch, last, other and offer or journal_id, table.concat(codes),
  unpack(more) }
