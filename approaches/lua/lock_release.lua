-- Releases locks, each only if it is still held under the caller's token: after its TTL a lock may belong to another
-- owner.
--
-- KEYS  the locks
-- ARGV  1 token
--
-- Returns the number released.

local mine = {}
for i, token in ipairs(redis.call('MGET', unpack(KEYS))) do
  if token == ARGV[1] then
    mine[#mine + 1] = KEYS[i]
  end
end
return #mine > 0 and redis.call('DEL', unpack(mine)) or 0
