-- Lists journal entries that are older than the grace period: their owner has had its time, so anyone may settle
-- them. Redis's clock stamps the entries and judges their age. After that clock has gone back they look younger than
-- they are, so the caller names one that it has seen for the grace period by its own clock.
--
-- KEYS  1 journal (stream)
-- ARGV  1 grace_ms   2 exclusive start id, or '-'   3 most entries to return
--       4 an id: this entry and those before it are old enough in any case; or empty
--
-- Returns XRANGE's reply: { { id, { field, value, ... } }, ... }.

local time = redis.call('TIME')
local newest_ms = math.max(0, time[1] * 1000 + math.floor(time[2] / 1000) - tonumber(ARGV[1]))
local newest = string.format('%.0f', newest_ms)
local seen_ms = tonumber(string.match(ARGV[4], '^(%d+)-'))
if seen_ms and seen_ms > newest_ms then
  newest = ARGV[4]
end
local start = ARGV[2] == '-' and '-' or '(' .. ARGV[2]
return redis.call('XRANGE', KEYS[1], start, newest, 'COUNT', ARGV[3])
