-- The order path as an nginx deployment would build it: one request, one EVALSHA of the same script for one user, over
-- a pool of kept-alive connections to Redis. The RESP client does only what this needs, so that no library distorts the
-- comparison.

local POOL_SIZE = 256
local IDLE_MS = 60000

local function read_reply(socket)
  local line, failure = socket:receive()
  if not line then
    return nil, failure
  end
  local kind, rest = line:sub(1, 1), line:sub(2)
  if kind == '+' or kind == ':' then
    return rest
  elseif kind == '-' then
    return nil, rest
  elseif kind == '$' then
    local length = tonumber(rest)
    if length < 0 then
      return false
    end
    local text
    text, failure = socket:receive(length + 2)
    return text and text:sub(1, -3), failure
  end
  local items = {}
  for i = 1, tonumber(rest) do
    items[i], failure = read_reply(socket)
    if items[i] == nil then
      return nil, failure
    end
  end
  return items
end

local function call(socket, ...)
  local words = { ... }
  local parts = { '*', #words, '\r\n' }
  for _, word in ipairs(words) do
    local at = #parts
    parts[at + 1], parts[at + 2], parts[at + 3], parts[at + 4], parts[at + 5] = '$', #word, '\r\n', word, '\r\n'
  end
  local sent, failure = socket:send(parts)
  if not sent then
    return nil, failure
  end
  return read_reply(socket)
end

local function connect(redis)
  local socket = ngx.socket.tcp()
  local connected, failure = socket:connect(redis.host, redis.port)
  if connected and redis.password ~= '' and socket:getreusedtimes() == 0 then
    connected, failure = call(socket, 'AUTH', redis.password)
  end
  return connected and socket, failure
end

local function answer(status, body)
  ngx.status = status
  ngx.header['Content-Type'] = status == 201 and 'application/json' or 'application/problem+json'
  ngx.header['Content-Length'] = #body
  ngx.print(body)
end

local session = '018bcfe5-6800-7000-8000-00000000005e' -- of no process: nobody settles its entries

local function new(redis, script_sha, journal_max, run)
  return function(voucher)
    local user, order = ngx.var.http_x_user_id, ngx.var.request_id
    local socket, failure = connect(redis)
    local reply
    if socket then
      local key = 'seckill:{' .. voucher .. '}:'
      reply, failure = call(socket, 'EVALSHA', script_sha, '5', key .. 'voucher', key .. 'buyers', key .. 'journal',
        key .. 'repeats', key .. 'ended', journal_max, run, 'new', '0', '0-0', session, '-', '1', '20', user, order)
    end
    if not reply then
      ngx.log(ngx.ERR, failure)
      return answer(503, '{"status":503,"code":"UNAVAILABLE"}')
    end
    socket:setkeepalive(IDLE_MS, POOL_SIZE)
    if reply[7] ~= 'p' then
      return answer(409, '{"status":409,"code":"REFUSED"}')
    end
    ngx.header['Location'] = '/orders/' .. order
    answer(201, string.format('{"id":"%s","voucher_id":"%s","user_id":"%s","status":"pending"}', order, voucher, user))
  end
end

return { new = new }
