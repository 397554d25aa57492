-- Takes a lock if it is free, and numbers it (a fencing token). Each number is greater than all before it, also after
-- Redis has lost its data, unless its clock goes back at the same time.
--
-- KEYS  1 lock   2 its last number
-- ARGV  1 token   2 ttl_ms
--
-- Returns the number; 0 if the lock is busy.

if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return 0
end
local time = redis.call('TIME')
local last = tonumber(redis.call('GET', KEYS[2])) or 0
local number = math.max(last + 1, time[1] * 1000000 + time[2])
redis.call('SET', KEYS[2], string.format('%.0f', number))
return number
