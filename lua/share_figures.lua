-- Writes the figures of an instance, and returns those of all instances. What was not renewed for long is removed.
--
-- KEYS  1 figures (hash: name of the instance -> "<when, in ms by Redis's clock> <text>")
-- ARGV  1 name   2 text   3 for how long figures are kept, in ms
--
-- Returns { name, age in ms, text ... }, of 256 instances at most.

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local found = redis.call('TYPE', KEYS[1]).ok
if found ~= 'none' and found ~= 'hash' then
  redis.call('UNLINK', KEYS[1])
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f ', now_ms) .. ARGV[2])
local noted = redis.call('HGETALL', KEYS[1])
local answer = {}
for i = 1, #noted, 2 do
  local at, text = string.match(noted[i + 1], '^(%d+) (.*)$')
  local age_ms = at and now_ms - tonumber(at)
  if not age_ms or age_ms > tonumber(ARGV[3]) or age_ms < 0 then
    redis.call('HDEL', KEYS[1], noted[i])
  elseif #answer < 3 * 256 then
    answer[#answer + 1] = noted[i]
    answer[#answer + 1] = age_ms
    answer[#answer + 1] = text
  end
end
return answer
