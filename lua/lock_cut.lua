-- Cuts the remaining time of another's lock to the TTL that its token names. A clock that was set back, or a manual
-- change, may have given it more. No TTL is above 600,000 ms (SECKILL_LOCK_TTL_MS).
--
-- KEYS  1 lock
-- ARGV  1 ttl_ms, for a token that names none
--
-- Returns the lock's token; or false: it is not held.

local found = redis.call('TYPE', KEYS[1]).ok
if found == 'none' then
  return false
elseif found ~= 'string' then
  redis.call('UNLINK', KEYS[1])
  return false
end
local token = redis.call('GET', KEYS[1])
local ttl_ms = math.min(600000, tonumber(string.match(token, '/(%d+)$') or ARGV[1]))
local left_ms = redis.call('PTTL', KEYS[1])
if left_ms < 0 or left_ms > ttl_ms then
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ttl_ms))
end
return token
