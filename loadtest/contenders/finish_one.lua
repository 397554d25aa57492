-- Ends an order that PostgreSQL has decided, as the Go and the Node contender ask for it, in one call: the journal's
-- entry goes, a unit that was taken for nothing returns, and the lock is released if it is still the caller's.
--
-- KEYS  1 lock   2 voucher (hash)   3 buyers (hash)   4 journal (stream)
-- ARGV  1 token of the lock   2 journal id   3 user   4 order id   5 PLACED, or why PostgreSQL refused
--
-- Returns 1, or 0: the lock was not held any more.

redis.call('XDEL', KEYS[4], ARGV[2])
if ARGV[5] ~= 'PLACED' and redis.call('HGET', KEYS[3], ARGV[3]) == ARGV[4] then
  redis.call('HDEL', KEYS[3], ARGV[3])
  redis.call('HINCRBY', KEYS[2], 'stock', 1)
end
return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0
