-- Ends a journal entry some of whose orders hold no unit any more, because PostgreSQL refused them or because the entry
-- is of orders that end: corrects Redis towards PostgreSQL and drops the entry, in one step, so that a crash leaves
-- either both or neither.
--
-- KEYS  1 voucher (hash)   2 buyers (hash)   3 journal (stream)   4 repeats (hash)
-- ARGV  1 journal id (empty: none)   2 hold_ms   then for each such order: units, order id, user, live order id
--
-- units          so many return to the stock; 0: PostgreSQL has none for it
-- live order id  the user's, becomes the buyer's entry; empty: there is none, and the buyer's entry goes; '-': the same, and
--                if the order came with an Idempotency-Key it stays known for a day, so that a repeat meets it
--
-- Giving units back is not idempotent by nature. It is here, because it happens only while the
-- buyer's entry still holds that very order id. Returns the number of orders corrected.
--
-- While all was sold out, instances may have noted to refuse from memory, for hold_ms and all but the buyers of that
-- time. The first unit that returns sells after that, so that its buyer is not refused by one of them (P6).

local day_s = 86400
local corrected = 0
for i = 3, #ARGV, 4 do
  local units, order, user, live = tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local held = redis.call('HGET', KEYS[2], user)
  if held and string.sub(held, 1, 36) == order then
    if live ~= '' and live ~= '-' then
      redis.call('HSET', KEYS[2], user, live)
    else
      redis.call('HDEL', KEYS[2], user)
    end
    local key = live == '-' and string.match(held, '^%S+ %d+ (%x+)$')
    if key then
      redis.call('HSET', KEYS[4], user .. ' ' .. key, held)
      redis.call('EXPIRE', KEYS[4], day_s)
    end
    if units > 0 and redis.call('HINCRBY', KEYS[1], 'stock', units) == units then
      local time = redis.call('TIME')
      redis.call('HSET', KEYS[1], 'returned_ms', time[1] * 1000 + math.floor(time[2] / 1000), 'hold_ms', ARGV[2])
    end
    corrected = corrected + 1
  end
end
if ARGV[1] ~= '' then
  redis.call('XDEL', KEYS[3], ARGV[1])
end
return corrected
