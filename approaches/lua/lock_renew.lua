-- Gives locks a new TTL, each only if it is still held under the caller's token.
--
-- KEYS  the locks
-- ARGV  1 token   2 ttl_ms
--
-- Returns one character for each lock: 1 renewed, 0 lost.

local held = {}
for i, token in ipairs(redis.call('MGET', unpack(KEYS))) do
  if token == ARGV[1] then
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
    held[i] = '1'
  else
    held[i] = '0'
  end
end
return table.concat(held)
