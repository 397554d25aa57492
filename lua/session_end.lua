-- Ends a session, only if it is the caller's.
--
-- KEYS  1 session   2 living sessions (sorted set)   3 ... for each shard its able sessions (sorted set)
-- ARGV  1 token   2 session id   3 "session process"
--
-- Returns 1, or 0: it is another's, or it is gone.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[2])
for shard = 3, #KEYS do
  redis.call('ZREM', KEYS[shard], ARGV[3])
end
return 1
