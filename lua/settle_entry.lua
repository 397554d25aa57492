-- Ends a journal entry some of whose orders PostgreSQL refused: corrects Redis towards PostgreSQL
-- and drops the entry, in one step, so that a crash leaves either both or neither.
--
-- KEYS  1 voucher (hash)   2 buyers (hash)   3 journal (stream)
-- ARGV  1 journal id (empty: none)   2 hold_ms   then for each refused order: correction, order id, user, live order id
--
-- return  the order is not placed, and the unit that was taken for it returns
-- drop    the order is not placed, and no unit returns: PostgreSQL has none left
--
-- The buyer's entry becomes the user's live order, or goes if there is none (empty).
--
-- Giving a unit back is not idempotent by nature. It is here, because it happens only while the
-- buyer's entry still holds that very order id. Returns the number of orders corrected.
--
-- While all was sold out, instances may have noted to refuse from memory, for hold_ms and all but the buyers of that
-- time. The first unit that returns sells after that, so that its buyer is not refused by one of them (P6).

local corrected = 0
for i = 3, #ARGV, 4 do
  local correction, order, user, live = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  if redis.call('HGET', KEYS[2], user) == order then
    if live ~= '' then
      redis.call('HSET', KEYS[2], user, live)
    else
      redis.call('HDEL', KEYS[2], user)
    end
    if correction == 'return' then
      if redis.call('HINCRBY', KEYS[1], 'stock', 1) == 1 then
        local time = redis.call('TIME')
        redis.call('HSET', KEYS[1], 'returned_ms', time[1] * 1000 + math.floor(time[2] / 1000), 'hold_ms', ARGV[2])
      end
    end
    corrected = corrected + 1
  end
end
if ARGV[1] ~= '' then
  redis.call('XDEL', KEYS[3], ARGV[1])
end
return corrected
