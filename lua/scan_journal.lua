-- Lists journal entries that are older than the grace period: whoever placed them has had its time,
-- so anyone may settle them. Redis's clock stamps the entries and judges their age.
--
-- KEYS  1 journal (stream)
-- ARGV  1 grace_ms   2 exclusive start id, or '-'   3 most entries to return
--
-- Returns XRANGE's reply: { { id, { field, value, ... } }, ... }.

local time = redis.call('TIME')
local newest_ms = time[1] * 1000 + math.floor(time[2] / 1000) - tonumber(ARGV[1])
if newest_ms < 0 then
  return {}
end
local start = ARGV[2] == '-' and '-' or '(' .. ARGV[2]
return redis.call('XRANGE', KEYS[1], start, string.format('%.0f', newest_ms), 'COUNT', ARGV[3])
