-- The crowd: a wrk script in which every thread is its own set of buyers. `oversell` and `bench` start it and read the
-- one line it prints at the end. wrk shares the machine with the service that it measures. So a request is two string
-- joins, and answers are parsed only where the caller needs them.
--
-- Set by the environment, because setup() does not see wrk's arguments:
--   LOAD_PATH     path of the request. {user} stands for the buyer, who is otherwise in X-User-Id; {random} for 18
--                 digits that differ each time; {voucher} for the vouchers in turn
--   LOAD_VOUCHERS their ids, separated by spaces
--   LOAD_METHOD   default POST
--   LOAD_URLS     addresses that the threads use in turn, instead of the one on wrk's command line
--   LOAD_THREADS  number of threads, as given to wrk
--   LOAD_USERS    size of the whole crowd; a user may buy more than once. 0: each user buys once
--   LOAD_FIELDS   a file with one header field on each line, all lines of one length. The field identifies the user
--                 instead of X-User-Id; each request has the next one. With LOAD_VOUCHERS each round of the file goes
--                 to the next voucher
--   LOAD_REPEAT   share of requests, 0 to 1, that repeat a recent buyer of any thread
--   LOAD_ASYNC    1 sends Prefer: respond-async
--   LOAD_WAIT     1 sends the body {"wait":true}: the buyers join the line of a voucher that is sold out
--   LOAD_TICKETS  file with one purchase ticket on each line; the buyers of the only thread send them in order
--   LOAD_SEED     random seed; default 0
--   LOAD_COUNT    1 counts the answers by code. Without it or LOAD_IDS, answers are not parsed
--   LOAD_IDS      prefix of the files, one for each thread, with "<status> <order id>" of every answered order; also
--                 counts the answers by code

local RECENT = 64 -- repeats come from this many last buyers: their first request may be in flight

local function setting(name, default)
  local value = os.getenv('LOAD_' .. name)
  return value and value ~= '' and value or default
end

local threads = {}
local addresses = {}
for host, port in setting('URLS', ''):gmatch('http://([^:/%s]+):(%d+)') do
  addresses[#addresses + 1] = { host = host, port = port }
end

function setup(thread)
  threads[#threads + 1] = thread
  thread:set('thread_id', #threads)
  if #addresses > 0 then
    local address = addresses[(#threads - 1) % #addresses + 1]
    thread.addr = wrk.lookup(address.host, address.port)[1]
  end
end

-- From here on the code runs inside a thread.

asked = 0 -- buyers of this thread that have sent a request, each counted once
answers = { placed = 0, accepted = 0, sold_out = 0, already_ordered = 0, limited = 0 }
others = {} -- every other answer: status -> number

local thread_count = tonumber(setting('THREADS', '1'))
local crowd = tonumber(setting('USERS', '0'))
local repeat_ratio = tonumber(setting('REPEAT', '0'))
local ids_prefix = setting('IDS')
local number, mine, own, head, tail, ids = 0, 0, nil, nil, nil, nil
local fields -- of the file: address, count, and length of one; nil without a file
local before -- the text before the random digits; nil without them
local tickets -- by number; nil if none are sent
local beginnings -- of a request, one for each voucher; nil if the path has no {voucher}

-- Mapped, not read: as Lua strings they would cost the crowd garbage collection time.
local function map_fields(name)
  local ffi = require('ffi')
  ffi.cdef([[
    int open(const char *path, int flags);
    long lseek(int fd, long offset, int whence);
    void *mmap(void *at, size_t len, int protection, int flags, int fd, long offset);
  ]])
  local fd = ffi.C.open(name, 0)
  local size = fd >= 0 and tonumber(ffi.C.lseek(fd, 0, 2)) or 0
  assert(size > 0, 'there are no fields in ' .. name)
  local bytes = ffi.cast('const char *', ffi.C.mmap(nil, size, 1, 2, fd, 0))
  local file = assert(io.open(name))
  local len = #file:read('*l')
  file:close()
  fields = { bytes = bytes, count = size / (len + 1), len = len, text = ffi.string }
end

-- A placeholder in the request text.
local FIELD = 'X-Field: {field}'

local function init_fields(text)
  local first, last = text:find(FIELD, 1, true)
  tail = text:sub(last + 1)
  head = text:sub(1, first - 1)
  first, last = head:find('{voucher}', 1, true)
  beginnings = {}
  for id in (first and setting('VOUCHERS', '') or '0'):gmatch('%d+') do
    beginnings[#beginnings + 1] = first and head:sub(1, first - 1) .. id .. head:sub(last + 1) or head
  end
end

function init(args)
  local path, headers = setting('PATH', '/'), {}
  if setting('FIELDS') then
    map_fields(setting('FIELDS'))
    headers['X-Field'] = '{field}'
    init_fields(wrk.format(setting('METHOD', 'POST'), path, headers))
    return
  end
  if not path:find('{user}', 1, true) then
    headers['X-User-Id'] = '{user}'
  end
  if setting('ASYNC') == '1' then
    headers['Prefer'] = 'respond-async'
  end
  local body = setting('WAIT') == '1' and '{"wait":true}' or nil
  headers['Content-Type'] = body and 'application/json'
  local text = wrk.format(setting('METHOD', 'POST'), path, headers, body)
  local first, last = text:find('{random}', 1, true)
  if first then
    before, text = text:sub(1, first - 1), text:sub(last + 1)
  end
  first, last = text:find('{user}', 1, true)
  head, tail = text:sub(1, first - 1) .. 'u', text:sub(last + 1)
  own = head .. thread_id .. '-'
  if setting('TICKETS') then
    assert(thread_count == 1 and repeat_ratio == 0, 'tickets are those of one thread, and none are repeated')
    tickets = {}
    for line in io.lines(setting('TICKETS')) do
      tickets[#tickets + 1] = line .. '\r\n\r\n'
    end
    tail = tail:sub(1, -3) .. 'X-Seckill-Ticket: ' -- before the empty line
  end
  first, last = own:find('{voucher}', 1, true)
  if first then
    assert(repeat_ratio == 0 and not before, 'a crowd over several vouchers repeats nothing and makes up nothing')
    beginnings = {}
    for id in setting('VOUCHERS', ''):gmatch('%d+') do
      beginnings[#beginnings + 1] = own:sub(1, first - 1) .. id .. own:sub(last + 1)
    end
  end
  mine = crowd > 0 and math.max(1, math.floor((crowd + thread_count - thread_id) / thread_count)) or 0
  math.randomseed(thread_id + tonumber(setting('SEED', '0')))
  if ids_prefix then
    ids = assert(io.open(ids_prefix .. thread_id, 'w'))
  end
end

local function request_with_field()
  local turn = asked * thread_count + thread_id - 1
  asked = asked + 1
  local at, round = turn % fields.count, math.floor(turn / fields.count)
  return beginnings[round % #beginnings + 1] .. fields.text(fields.bytes + at * (fields.len + 1), fields.len) .. tail
end

function request()
  if fields then
    return request_with_field()
  end
  if repeat_ratio > 0 and number > 0 and math.random() < repeat_ratio then
    return head .. math.random(thread_count) .. '-' .. math.random(math.max(1, number - RECENT), number) .. tail
  end
  number = number + 1
  if number > asked then
    asked = number
  end
  if beginnings then
    own = beginnings[number % #beginnings + 1]
  end
  local text = own .. number .. tail
  if tickets then
    text = text .. tickets[number]
  end
  if number == mine then
    number = 0
  end
  if before then
    return before .. math.random(100000000, 999999999) .. math.random(100000000, 999999999) .. text
  end
  return text
end

local function keep_id(status, body)
  if ids then
    ids:write(status, ' ', body:match('"id":%s*"([^"]*)"') or '-', '\n')
  end
end

-- wrk parses and copies every answer once this function exists, so define it only where needed.
if ids_prefix or setting('COUNT') == '1' then
  function response(status, headers, body)
    local name
    if status == 201 then
      name = 'placed'
      keep_id(status, body)
    elseif status == 202 then
      name = 'accepted'
      keep_id(status, body)
    elseif status == 429 then
      name = 'limited'
    elseif status == 409 then
      if body:find('SOLD_OUT', 1, true) then
        name = 'sold_out'
      elseif body:find('ALREADY_ORDERED', 1, true) then
        name = 'already_ordered'
      end
    end
    if name then
      answers[name] = answers[name] + 1
    else
      others[status] = (others[status] or 0) + 1
    end
  end
end

-- Runs in wrk's main thread again.

local function as_json(object)
  local members = {}
  for name, value in pairs(object) do
    members[#members + 1] = string.format('"%s":%s', name, type(value) == 'table' and as_json(value) or value)
  end
  return '{' .. table.concat(members, ',') .. '}'
end

function done(summary, latency, requests)
  local sum = { asked = 0, answers = {}, others = {} }
  for _, thread in ipairs(threads) do
    sum.asked = sum.asked + thread:get('asked')
    for _, name in ipairs({ 'answers', 'others' }) do
      for key, count in pairs(thread:get(name)) do
        sum[name][key] = (sum[name][key] or 0) + count
      end
    end
  end
  sum.requests = summary.requests
  sum.seconds = summary.duration / 1e6
  sum.p50_ms = latency:percentile(50) / 1e3
  sum.p99_ms = latency:percentile(99) / 1e3
  sum.not_ok = summary.errors.status -- answers with status 400 and above
  sum.broken = {
    connect = summary.errors.connect,
    read = summary.errors.read,
    write = summary.errors.write,
    timeout = summary.errors.timeout,
  }
  io.write('load ', as_json(sum), '\n')
end
