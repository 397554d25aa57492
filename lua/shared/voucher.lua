-- What scripts share about the voucher's hash. embed.cmake replaces a line `-- include: shared/voucher.lua` with this
-- file, as one line. So a line number in a Redis error is a line of the script's own file.
--
-- A sale reopens where it refused before: units come into an empty stock, it is resumed, begins earlier, ends later, or
-- is rebuilt. All such changes call reopen(). Instances may still refuse from their refusal caches then (sale/admit.c):
-- each as long as it is configured to, at most `cache_ms` of the hash. So nothing is sold for `cache_ms` after a
-- reopening. By the time of the first new buyer all older refusals have expired, so no instance refuses him from its
-- cache when he repeats (P6).
--
-- Why that suffices: a cached refusal came from a script call at some time m, and expires at m + cache_ms at the
-- latest. A new buyer at a time g > m needs a reopening r between the two. The last such reopening ended its hold
-- before g: r + cache_ms < g. So the refusal has expired at g. It does not matter which instance reopens, whether it
-- knows of others, or whether one was paused meanwhile. Each instance counts by its own monotonic clock, from before it
-- asked.
-- - `cache_ms` only grows. PostgreSQL has it first (rebuild_epoch()), so a rebuild knows the old value even if Redis
--   has lost its data. A voucher that was never loaded has no refusals, and needs no hold.
-- - A refusal after a reopening (sold out again, a pause) may be cached: the sale must reopen once more before the next
--   buyer, and holds back again.
-- - NOT_STARTED is cached no longer than until the start. The start is no change and reopens nothing.
-- - Only Redis's clock counts here. If it is set back, the hold begins again (place_orders.lua). In two cases a cached
--   refusal may meet a winner, for `cache_ms` at most: the clock is set forward within a hold, or set back to before
--   the end of a sale; or an order is granted again (`again`) while the sale is paused or over.

local function number(text) -- of at most 15 digits, which are exact in Lua; nil: it is none
  return text and #text <= 15 and (text == '0' or string.find(text, '^[1-9]%d*$')) and tonumber(text)
end

local function clock_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Returns the code with which place_orders.lua refuses by state and window alone; nil: it sells while there are
-- units.
local function refusal_of(state, begin_ms, end_ms, now_ms)
  return (state == 'closed' or now_ms >= end_ms) and 'e' or state == 'paused' and 'u' or now_ms < begin_ms and 'n' or nil
end

local function reopen(key, now_ms)
  redis.call('HSET', key, 'reopened_ms', now_ms)
end

-- Allows for clocks that drift apart by 0.1 %, and for the part of a millisecond that each cuts off. No hold is longer
-- than 60 s, the most that can be configured, whatever the hash contains.
local function is_held(reopened_ms, cache_ms, now_ms)
  return reopened_ms and cache_ms and cache_ms > 0 and now_ms <= reopened_ms + math.min(cache_ms, 60000) * 1.001
end
