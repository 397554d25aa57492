-- What scripts share about the voucher's hash. embed.cmake puts it in the place of a line `-- include: shared/voucher.lua`,
-- as one line, so that a number in an error of Redis is that of the script's own file.
--
-- A sale reopens where it refused before: units come into an empty stock, it is resumed, begins earlier, ends later, or
-- is rebuilt. All such changes call reopen(). Instances may still refuse from memory then (sale/admit.c): each for as
-- long as it is configured, and never longer than `cache_ms` of the hash. So for `cache_ms` after a reopening
-- nothing is sold. The first new buyer comes when all older refusals have expired, and no instance refuses him from
-- memory when he repeats (P6).
--
-- Why that suffices. A refusal that is cached was given by a script call at some time m, and expires at m + cache_ms at
-- the latest. A new buyer at a time g > m needs a reopening between the two, at r; the last one of them ended its hold
-- before g: r + cache_ms < g. So the refusal has expired at g. It does not matter which instance reopens, whether it
-- knows of others, or whether one of them was paused meanwhile: each counts by its own monotonic clock, from before it
-- asked.
-- - `cache_ms` only grows. PostgreSQL has it first (rebuild_epoch()), so that a rebuild knows what applied before, also
--   where Redis has lost its data. What was never loaded before has no refusals, and needs no hold.
-- - A refusal that follows a reopening (stock that is sold out again, a pause) may be cached: before the next buyer the
--   sale has to reopen once more, and holds back again.
-- - NOT_STARTED is cached no longer than until the start, which is no change and reopens nothing.
-- - Only Redis's clock counts here. Set back, it begins the hold again (place_orders.lua). Where it is set forward within a
--   hold, or set back behind the end of a sale, a cached refusal may meet a winner, for `cache_ms` at most. So it may where
--   an order is granted again (`again`) while the sale is paused or over.

local function number(text) -- of at most 15 digits, which are exact in Lua; nil: it is none
  return text and #text <= 15 and (text == '0' or string.find(text, '^[1-9]%d*$')) and tonumber(text)
end

local function clock_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The letter with which place_orders.lua refuses by state and window alone; nil: it sells as long as there are units.
local function refusal_of(state, begin_ms, end_ms, now_ms)
  return (state == 'closed' or now_ms >= end_ms) and 'e' or state == 'paused' and 'u' or now_ms < begin_ms and 'n' or nil
end

local function reopen(key, now_ms)
  redis.call('HSET', key, 'reopened_ms', now_ms)
end

-- Clocks may run apart by a thousandth, and each cuts off a part of its millisecond. No hold is longer than 60 s, the most
-- that can be configured, whatever the hash says.
local function is_held(reopened_ms, cache_ms, now_ms)
  return reopened_ms and cache_ms and cache_ms > 0 and now_ms <= reopened_ms + math.min(cache_ms, 60000) * 1.001
end
