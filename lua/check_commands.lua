-- Tries every command that the service uses, each on keys that only this script has. Returns those that are denied, or
-- refused for another reason. Nothing stays.
--
-- KEYS  1 voucher (hash)   2 buyers (hash)   3 journal (stream)   4 repeats (hash)   5 ended (hash)   6 lock
--       They belong to no voucher. Or, if ARGV[1] is 'shared', since those are in another slot:
--       1 session   2 living sessions   3 busy vouchers   4 protocol version   5 the newest time seen   6 instances
--       The first belongs to no session. The others are the real ones; nothing of them is changed.
--
-- Returns { command, error ... }, each command once.

local refused, seen = {}, {}

local function try(command, ...)
  local answer = redis.pcall(command, ...)
  local failed = type(answer) == 'table' and answer.err
  -- A rebuild repairs a key of another type. A missing key means that creating it failed, which is already reported.
  -- Both errors show that the command is permitted.
  local harmless = failed and (string.find(failed, 'WRONGTYPE', 1, true) or string.find(failed, 'no such key', 1, true))
  if failed and not harmless and not seen[command] then
    seen[command] = true
    refused[#refused + 1] = command
    refused[#refused + 1] = failed
  end
end

local ttl_ms = '1000' -- in case the last lines are refused

if ARGV[1] == 'shared' then
  try('SET', KEYS[1], 'a', 'NX', 'PX', ttl_ms)
  try('GET', KEYS[1])
  try('TYPE', KEYS[1])
  try('PEXPIRE', KEYS[1], ttl_ms)

  -- A member that is no session, and that would have expired long ago if it stayed.
  try('ZINCRBY', KEYS[2], '1', 'check')
  try('ZADD', KEYS[2], 'XX', '1', 'check')
  try('ZSCORE', KEYS[2], 'check')
  try('ZCOUNT', KEYS[2], '1', '1')
  try('ZRANGE', KEYS[2], '0', '0')
  try('ZREM', KEYS[2], 'check')
  try('ZREMRANGEBYSCORE', KEYS[2], '1', '1')

  try('HDEL', KEYS[3], 'check')
  try('HDEL', KEYS[6], 'check')
  for key = 4, 5 do
    try('GET', KEYS[key])
    try('HDEL', KEYS[key], 'check') -- they are strings: this only checks whether they may be written
  end
  try('UNLINK', KEYS[1])
  return refused
end

for _, key in ipairs({ 1, 2, 4, 5 }) do
  try('HSET', KEYS[key], 'a', '1', 'b', '2')
  try('PEXPIRE', KEYS[key], ttl_ms)
end
try('XADD', KEYS[3], '*', 'a', '1')
try('EXPIRE', KEYS[3], '1')
try('SET', KEYS[6], 'a', 'NX', 'PX', ttl_ms)

try('HGET', KEYS[1], 'a')
try('HMGET', KEYS[1], 'a', 'b')
try('HLEN', KEYS[2])
try('HGETALL', KEYS[2])
try('HSCAN', KEYS[4], '0', 'COUNT', '10')
try('HINCRBY', KEYS[1], 'a', '1')
try('HDEL', KEYS[2], 'a')
try('XLEN', KEYS[3])
try('XINFO', 'STREAM', KEYS[3])
try('XRANGE', KEYS[3], '-', '+', 'COUNT', '1')
try('XDEL', KEYS[3], '1-1')
try('GET', KEYS[6])
try('PTTL', KEYS[6])
try('EXISTS', KEYS[6])
try('TYPE', KEYS[6])
try('TIME')

try('DEL', KEYS[6])
for key = 1, 6 do
  try('UNLINK', KEYS[key])
end
return refused
