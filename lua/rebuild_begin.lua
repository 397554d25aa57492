-- First step of rebuilding a voucher from PostgreSQL: closes it to buyers under a new epoch and forgets the old buyers.
-- An epoch that is not newer changes nothing: another rebuild is in progress, or is done. Impossible values are
-- overwritten: keys of a wrong type, an epoch that is no number or a billion ahead of PostgreSQL's.
--
-- KEYS  1 voucher (hash)   2 buyers (hash)   3 journal (stream)   4 repeats (hash)   5 ended (hash)
-- ARGV  1 epoch
--
-- Returns 1 if the voucher is ours to rebuild, else 0.

local function has_wrong_type(key, wanted)
  local found = redis.call('TYPE', key).ok
  return found ~= 'none' and found ~= wanted
end

local ours, damaged = tonumber(ARGV[1]), has_wrong_type(KEYS[1], 'hash')
local theirs = not damaged and redis.call('HGET', KEYS[1], 'epoch')
if theirs and #theirs <= 15 and string.find(theirs, '^%d+$') then
  theirs = tonumber(theirs)
  if theirs >= ours and theirs < ours + 1000000000 then
    return 0
  end
end
if damaged then
  redis.call('UNLINK', KEYS[1])
end
if has_wrong_type(KEYS[3], 'stream') then
  redis.call('UNLINK', KEYS[3])
end
redis.call('HSET', KEYS[1], 'state', 'loading', 'epoch', ARGV[1])
redis.call('UNLINK', KEYS[2], KEYS[4], KEYS[5])
return 1
