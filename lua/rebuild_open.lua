-- Last step of rebuilding a voucher: writes its stock and terms and opens it, if it is still ours.
--
-- KEYS  1 voucher (hash)   2 buyers (hash)   3 journal (stream)
-- ARGV  1 epoch   2 stock   3 number of buyers   4 begin_ms   5 end_ms   6 state ('open', 'paused' or 'closed')
--       7 run id of this Redis process   8 change number that stock and terms are up to date with
--       9 cache_ms until now: how long an instance may have cached a refusal; 0: none was cached
--       10 cache_ms from now on: how long an instance may cache one; 0: none may be cached   11 offer
--
-- Returns 1; 2 if the journal is not empty: its entries must be settled first; or 0 if another rebuild has taken over,
-- or if buyers are missing because Redis has lost some since.

-- include: shared/voucher.lua

local voucher = redis.call('HMGET', KEYS[1], 'state', 'epoch')
if voucher[1] ~= 'loading' or voucher[2] ~= ARGV[1] then
  return 0
end
if redis.call('XLEN', KEYS[3]) > 0 then
  return 2
end
if redis.call('HLEN', KEYS[2]) ~= tonumber(ARGV[3]) then
  return 0
end
-- Journal ids never go back by themselves: after a forged one, in either of its numbers, they would stay out of range
-- for ever.
if redis.call('EXISTS', KEYS[3]) == 1 then
  local info = redis.call('XINFO', 'STREAM', KEYS[3])
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      local ms, seq = string.match(info[i + 1], '^(%d+)-(%d+)$')
      if #ms > 15 or #seq > 15 then
        redis.call('DEL', KEYS[3])
      end
    end
  end
end
-- A new value of `last` shows every instance that the buyers it has cached are out of date.
redis.call('HSET', KEYS[1], 'stock', ARGV[2], 'begin_ms', ARGV[4], 'end_ms', ARGV[5], 'last', 'epoch-' .. ARGV[1],
  'run', ARGV[7], 'state', ARGV[6], 'change', ARGV[8], 'cache_ms', ARGV[10], 'offer', ARGV[11])
if tonumber(ARGV[9]) > 0 then
  reopen(KEYS[1], clock_ms())
end
return 1
