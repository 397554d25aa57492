-- Takes a session, or renews its TTL, only if it is the caller's. Also keeps a list of the living sessions, which can
-- be read without a scan. A session lives if and only if it is in that list.
--
-- A clock that is set back would prolong all sessions. So the newest time seen is kept, and if the clock is behind it,
-- all expiry times go back by the difference. No session has a TTL above 600,000 ms (SECKILL_LOCK_TTL_MS): who expires
-- later was written by hand, and is removed.
--
-- For each shard there is a list of the sessions that are able to work there in the background. An entry lasts 1500 ms
-- (SK_ABLE_MS), since a session is renewed at least once a second.
--
-- KEYS  1 session   2 living sessions (sorted set: session id -> when it expires, in ms by Redis's clock)
--       3 protocol version of the living sessions   4 the newest time seen, in ms
--       5 ... for each shard its able sessions (sorted set: "session process" -> until when, in ms by Redis's clock)
--       then living sessions of protocol version 4, like 2; a cluster has no such key, since version 4 knew none
-- ARGV  1 token   2 ttl_ms   3 session id   4 'take' or 'renew': a session that is gone is not renewed
--       5 protocol version of the caller: no two of them run side by side   6 "session process"
--       7 how many shards   8 ... for each: '1' if the session is able to work there, or '0'
--
-- Returns { 1, { living session id ... }, for each shard { "session process" ... } }; or { 0 }: it is another's, or it
-- is gone; or { 0, protocol version }: sessions of that version live.

local function drop_wrong_type(key, wanted)
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= wanted then
    redis.call('UNLINK', key)
  end
end

drop_wrong_type(KEYS[1], 'string')
drop_wrong_type(KEYS[2], 'zset')
drop_wrong_type(KEYS[3], 'string')
drop_wrong_type(KEYS[4], 'string')
local shards = tonumber(ARGV[7])
for shard = 1, shards do
  drop_wrong_type(KEYS[4 + shard], 'zset')
end
local of_version_4 = KEYS[5 + shards]

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local seen_ms = tonumber(string.match(redis.call('GET', KEYS[4]) or '', '^%d+$') or now_ms)
local back_ms = math.max(0, seen_ms - now_ms)
local longest_ms = 600000
local able_ms = 1500

-- How many sessions of a list live.
local function living(list)
  return redis.call('ZCOUNT', list, '(' .. now_ms + back_ms, now_ms + back_ms + longest_ms)
end

local protocol = redis.call('GET', KEYS[3])
if protocol and protocol ~= ARGV[5] and living(KEYS[2]) > 0 then
  return { 0, protocol }
end
if of_version_4 and ARGV[4] == 'take' and living(of_version_4) > 0 then
  return { 0, '4' }
end
local expires_ms = redis.call('ZSCORE', KEYS[2], ARGV[3])
local lives = expires_ms and tonumber(expires_ms) > now_ms + back_ms
if ARGV[4] ~= 'take' and not lives then
  return { 0 }
end
local owner = redis.call('GET', KEYS[1])
if owner == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
elseif owner or ARGV[4] ~= 'take' then
  return { 0 }
else
  redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
end

-- After the write above, these writes run even if memory is full.
if protocol ~= ARGV[5] then
  redis.call('SET', KEYS[3], ARGV[5])
end
if back_ms > 0 then
  for _, id in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    redis.call('ZINCRBY', KEYS[2], -back_ms, id)
  end
end
redis.call('SET', KEYS[4], string.format('%.0f', now_ms))
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now_ms)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '(' .. now_ms + longest_ms, '+inf')
redis.call('ZADD', KEYS[2], now_ms + tonumber(ARGV[2]), ARGV[3])
local lists = { 1, redis.call('ZRANGE', KEYS[2], 0, 4095) }
for shard = 1, shards do
  local able = KEYS[4 + shard]
  redis.call('ZREMRANGEBYSCORE', able, '-inf', now_ms)
  redis.call('ZREMRANGEBYSCORE', able, '(' .. now_ms + able_ms, '+inf') -- of a clock that was set back
  if ARGV[7 + shard] == '1' then
    redis.call('ZADD', able, now_ms + able_ms, ARGV[6])
    redis.call('PEXPIRE', able, able_ms)
  else
    redis.call('ZREM', able, ARGV[6])
  end
  lists[2 + shard] = redis.call('ZRANGE', able, 0, 4095)
end
return lists
