-- Lists the living sessions, and what is noted of them.
--
-- KEYS  1 living sessions (sorted set: session id -> when it expires, in ms by Redis's clock)
--       2 instances (hash: session id -> text)
--
-- Returns { now_ms, session id, ms until it expires, text or '' ... }, of 4096 sessions at most.

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local answer = { now_ms }
local sessions = redis.call('ZRANGE', KEYS[1], 0, 4095, 'WITHSCORES')
local told = redis.call('TYPE', KEYS[2]).ok == 'hash'
for i = 1, #sessions, 2 do
  local left_ms = tonumber(sessions[i + 1]) - now_ms
  if left_ms > 0 then
    answer[#answer + 1] = sessions[i]
    answer[#answer + 1] = left_ms
    answer[#answer + 1] = told and redis.call('HGET', KEYS[2], sessions[i]) or ''
  end
end
return answer
