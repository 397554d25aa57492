-- Ends an order that PostgreSQL has decided, for the Go and the Node contender, in one call. Removes the journal entry,
-- returns a unit that PostgreSQL refused, and releases the lock if the caller still holds it.
--
-- KEYS  1 lock   2 voucher (hash)   3 buyers (hash)   4 journal (stream)
-- ARGV  1 token of the lock   2 journal id   3 user   4 order id   5 PLACED, or why PostgreSQL refused
--
-- Returns 1, or 0: the lock was no longer held.

redis.call('XDEL', KEYS[4], ARGV[2])
if ARGV[5] ~= 'PLACED' and redis.call('HGET', KEYS[3], ARGV[3]) == ARGV[4] then
  redis.call('HDEL', KEYS[3], ARGV[3])
  redis.call('HINCRBY', KEYS[2], 'stock', 1)
end
return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0
