-- Cuts the remaining time of another's lock to the TTL that its token names. A clock that was set back, or a manual
-- change, may have given it more. No TTL is above 600,000 ms (SECKILL_LOCK_TTL_MS).
--
-- KEYS  1 lock
-- ARGV  1 ttl_ms, for a token that names none
--
-- Returns 1, or 0: there is nothing to cut.

local found = redis.call('TYPE', KEYS[1]).ok
if found == 'none' then
  return 0
elseif found ~= 'string' then
  return redis.call('UNLINK', KEYS[1])
end
local ttl_ms = math.min(600000, tonumber(string.match(redis.call('GET', KEYS[1]), '/(%d+)$') or ARGV[1]))
local left_ms = redis.call('PTTL', KEYS[1])
if left_ms >= 0 and left_ms <= ttl_ms then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ttl_ms))
