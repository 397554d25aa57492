"""Negative controls: each breaks a rule of a client, or a block of the cookbook, as a careless change would, and names
what must fail of it."""

from __future__ import annotations

from webhooks import ANSWERS, SENT

LOST = "an answer that is lost is asked for again, under the same key"
LATE = "an answer that does not come has its time-out, its body, too"
PAGES = "a gateway's page is no answer, whatever its status"
FOREIGN = "a gateway's JSON with 200 is no answer"
DOUBTFUL = "after a lost answer only what the service knows of the order is a refusal"
UNKNOWN = "where there is no answer in the end the outcome is unknown"
RETRY_AFTER = "never before Retry-After"
JITTER = "a crowd that was refused together does not come back together"
ACCEPTED = "an accepted order is followed to its end, by a long poll"
ACCEPTED_UNKNOWN = "an accepted order of which nothing can be learnt is unknown"
FOLLOWING = "following survives lost answers, and a service that has no place to wait"
NO_WAIT = "a gateway that does not let it wait is not asked without end"
SOON = "a start in a moment is waited for, one in an hour is not"
TICKET = "a ticket is got where one is needed, and its work done"
CREATED = "a voucher whose creation is not answered is one voucher"
BROKEN_STREAM = "a stream that breaks is opened again, and the voucher asked for meanwhile"
MANY = "many users share what one client has open"
HEADERS = "headers are asked for at each try"
KEY = "what is unknown has its key, and is asked for again under it"
BOUNDED = "a call ends when its time is up"
IN_TIME = "a purchase that is accepted when its time is up is accepted, and can be followed"
PAID_LATE = "a payment of an order that has ended is no success"
PAID_BACK = "a payment that was given back is reported again, and not given back twice"
COMMANDED = "any other command is carried out once"
FEED = "the feed of changes is read page by page"
SALE_ENDS = "a sale's end ends a watch"
LOGIN = "a gateway that wants a login has it of a stream, too"
FAILING_LOGIN = "a login that fails ends no purchase, and proves nothing about a lost answer"
NO_LOGIN = "without a login nothing is sent, and the caller's error is kept"
ONLINE = "the browser's online event ends a pause, but no Retry-After"
TIME = "the time is the service's"
SEVERAL = "several sales are followed in one stream, without unknown ones"
AWAY = "while Redis is away a watch tells no units"
SLOW = "who is slower than a sale hears its newest state"
MANY_SALES = "more sales than a stream takes are followed in several"
TYPES = "the types have every member that the service sends"
TROUBLES = "who follows a sale or an order hears of each try that fails"
MONEY = "an amount has the digits of its currency"
NO_STREAM = "where no stream can be had the voucher is asked for"

# What is broken, in which file, by which change; and the scenario that must fail.
WEB: tuple[tuple[str, str, str, str, str], ...] = (
    ("a time-out is a refusal", "outcome.js", "return { outcome: AGAIN, isLost: true, isKnown: false };",
     "return { outcome: 'refused', isLost: false, isKnown: true };", LOST),
    ("after a lost answer 401 is a refusal", "outcome.js", "isLost || (wasLost && !isKnown)", "isLost", DOUBTFUL),
    ("a gateway's page is a refusal", "outcome.js", "isLost: isOther, isKnown: status === 409 && !isOther",
     "isLost: false, isKnown: status === 409", PAGES),
    ("a gateway's JSON is an answer", "api.js", "(member === undefined || member in body)", "true", FOREIGN),
    ("a status that there is not is an outcome", "purchase.js", " ?? 'unknown'", " ?? 'refused'", FOREIGN),
    ("tries without end", "outcome.js", "tries === TRIES_MOST", "tries === 99", UNKNOWN),
    ("an earlier try is forgotten", "outcome.js", "let isLost = isDoubtful;", "let isLost = false;", DOUBTFUL),
    ("another key for each try", "purchase.js", "const headers = { 'Idempotency-Key': key };",
     "const headers = { 'Idempotency-Key': makeKey() };", LOST),
    ("Retry-After is not read", "retry.js", "if (retryAfterMs !== undefined) {",
     "if (retryAfterMs < 0) {", RETRY_AFTER),
    ("no jitter", "retry.js", "return retryAfterMs + random() * Math.max(250, retryAfterMs * SPREAD);",
     "return retryAfterMs;", JITTER),
    ("no time-out", "api.js", "let timer = setTimeout(abort, timeoutMs);", "let timer = 0;", LATE),
    ("a 202 is a win", "purchase.js", "pending: 'accepted',", "pending: 'won',", ACCEPTED),
    ("no long poll", "orders.js", "?wait=${seconds}&while=${status}", "", ACCEPTED),
    ("no pause between questions", "orders.js", "        await pause(delay, signal, retryAfterMs === undefined);\n", "",
     NO_WAIT),
    ("no place to wait: asks to wait again", "orders.js", "problem.code !== 'OVERLOADED'",
     "problem.code !== ''", FOLLOWING),
    ("an accepted order that cannot be read is refused", "index.js", "({ outcome: 'unknown', code, orderId })",
     "({ outcome: 'refused', code, orderId })", ACCEPTED_UNKNOWN),
    ("does not wait for the start", "purchase.js", "START_SOON_MS = 5000", "START_SOON_MS = 0", SOON),
    ("gets no ticket", "index.js", "if (isNeeded) {", "if (false) {", TICKET),
    ("commands without a key", "index.js", "post(path, json, options, { 'Idempotency-Key': key })",
     "post(path, json, options)", COMMANDED),
    ("creates under another key than it tells", "index.js", "{ 'Idempotency-Key': key })), key };",
     "{ 'Idempotency-Key': key })), key: makeKey() };", CREATED),
    ("headers are asked for once", "index.js",
     "const credentials = typeof headers === 'function' ? headers : () => headers;",
     "const once = typeof headers === 'function' ? headers() : headers, credentials = () => once;", HEADERS),
    ("a promise of headers is not awaited", "api.js", "await loginOf(credentials, ending.signal)", "credentials()",
     HEADERS),
    ("a try without a login may have bought", "outcome.js", "code === 'PENDING' || code === 'NO_LOGIN' ||",
     "code === 'PENDING' ||", FAILING_LOGIN),
    ("what a login has thrown is lost", "api.js", "new Problem('NO_LOGIN', { cause })", "new Problem('NO_LOGIN')",
     NO_LOGIN),
    ("a login that does not come is waited for", "api.js",
     "signal.addEventListener('abort', () => fail(signal.reason));", "", NO_LOGIN),
    ("online ends no pause", "retry.js", "if (endsOnline) {", "if (false) {", ONLINE),
    ("online ends Retry-After", "retry.js", "if (endsOnline) {", "if (true) {", ONLINE),
    ("the time is the client's own", "index.js", "now: () => clock.now(),", "now: () => Date.now(),", TIME),
    ("an unknown purchase has another key", "index.js", "code: settled.code ?? result.code, key };",
     "code: settled.code ?? result.code, key: makeKey() };", KEY),
    ("a purchase has no bound", "index.js", "const call = (path, request) => api.call(path, { ...request, signal });",
     "const { call } = api;", BOUNDED),
    ("a command has no bound", "index.js", "{ method: 'POST', json, headers, member, signal }, signal)",
     "{ method: 'POST', json, headers, member })", BOUNDED),
    ("a ticket's work has no bound", "ticket.js", "if (signal?.aborted) {", "if (false) {", BOUNDED),
    ("what is accepted is unknown", "index.js", "{ outcome: 'accepted', code: 'ABORTED', orderId }",
     "unknown('ABORTED')", IN_TIME),
    ("a late payment is done", "index.js", "recorded.state === 'to_refund' ? ", "false ? ", PAID_LATE),
    ("a late payment is given back twice", "index.js", "recorded.state === 'to_refund' ? ",
     "order.status !== 'paid' ? ", PAID_BACK),
    ("an answer without the payment is a success", "index.js",
     "return { outcome: 'unknown', code: 'NOT_OURS', orderId };", "return result;", PAID_BACK),
    ("the feed begins anew", "index.js", "query({ after, limit, wait, only })", "query({ limit, wait, only })", FEED),
    ("a watch outlives the sale", "events.js", "if (event.phase === 'ended') {",
     "if (LAST.includes(event.state)) {", SALE_ENDS),
    ("polls without a phase", "events.js", "hear({ voucher_id: id, state, phase, remaining:",
     "hear({ voucher_id: id, state, remaining:", SALE_ENDS),
    ("polls tell PostgreSQL's units", "events.js", "can_sell === false ? null : remaining", "remaining", AWAY),
    ("a sale's event has no phase", "index.d.ts", "    phase: Phase;\n    /** null: not known now, as", "    /** null: not known now, as", TYPES),
    ("what is won has no status", "index.d.ts", "export interface Won extends LastError {", "export interface Won {", TYPES),
    ("a stream has no headers", "index.js", "{ ...options, headers: credentials }", "options", LOGIN),
    ("a stream is opened once", "events.js", "for (let failures = 1; !ending.signal.aborted; failures++)",
     "for (let failures = 1; failures < 2; failures++)", BROKEN_STREAM),
    ("no polling without a stream", "events.js", "open.has(id) && !streams.some(", "open.has(id) && streams.some(",
     NO_STREAM),
    ("an unknown voucher ends a watch of several", "events.js", "if (!Array.isArray(ids) || ", "if (true || ",
     SEVERAL),
    ("a stream asks again for an unknown voucher", "events.js", "wanted.delete(id);", "", SEVERAL),
    ("a watch of several ends with the first sale", "events.js", "open.delete(event.voucher_id);", "open.clear();",
     SEVERAL),
    ("a watch is silent about its troubles", "events.js", "if (!signal?.aborted) {\n                    on", "if (false) {on",
     TROUBLES),
    ("following is silent about its troubles", "orders.js", "onTrouble?.(problem);", "", TROUBLES),
    ("an aborted watch is a trouble", "events.js", "if (!signal?.aborted) {\n                    on", "{\n on", TROUBLES),
    ("aborted following is a trouble", "orders.js", "if (!signal?.aborted) {\n                on", "{\n on", TROUBLES),
    ("each voucher has a stream of its own", "events.js", "STREAM_MOST = 32;", "STREAM_MOST = 2;", SEVERAL),
    ("a stream has more vouchers than the service takes", "events.js", "STREAM_MOST = 32;", "STREAM_MOST = 33;",
     MANY_SALES),
    ("money has the digits of Intl", "money.js", "{ ...options, style: 'currency', currency }",
     "{ style: 'currency', currency }", MONEY),
)

JAVA: tuple[tuple[str, str, str, str], ...] = (
    ("a time-out is a refusal", "return new Judged(true, true, false, null);",
     "return new Judged(false, false, true, null);", LOST),
    ("after a lost answer 401 is a refusal", "judged.isLost || (wasLost && !judged.isKnown)",
     "judged.isLost", DOUBTFUL),
    ("a gateway's page is a refusal", "new Judged(false, isOther, problem.status == 409 && !isOther, null)",
     "new Judged(false, false, true, null)", PAGES),
    ("a gateway's JSON is an answer", " && (member == null || body.containsKey(member))", "", FOREIGN),
    ("tries without end", "TRIES_MOST = 12", "TRIES_MOST = 99", UNKNOWN),
    ("an earlier try is forgotten", "boolean wasLost = isDoubtful;", "boolean wasLost = false;", DOUBTFUL),
    ("another key for each try", 'new LinkedHashMap<>(Map.of("Idempotency-Key", key))',
     'new LinkedHashMap<>(Map.of("Idempotency-Key", UUID.randomUUID().toString()))', LOST),
    ("Retry-After is not read", "if (retryAfterMs.isPresent()) {", "if (retryAfterMs.orElse(0) < 0) {", RETRY_AFTER),
    ("no jitter", "return asked + random(Math.max(250, asked / 2));", "return asked;", JITTER),
    ("no time-out", "answer.get(timeoutMs, TimeUnit.MILLISECONDS)", "answer.get(timeoutMs, TimeUnit.HOURS)", LATE),
    ("a 202 is a win", "resultOf(Outcome.ACCEPTED, null, order)", "resultOf(Outcome.WON, null, order)", ACCEPTED),
    ("no long poll", '"?wait=" + waitS + "&while=" + status', '""', ACCEPTED),
    ("no pause between questions", "            if (delay < leftMs(until)) {\n                pause(delay);",
     "            if (delay < leftMs(until)) {\n                pause(0);", NO_WAIT),
    ("no place to wait: asks to wait again", '!problem.code.equals("OVERLOADED")',
     '!problem.code.equals("")', FOLLOWING),
    ("an accepted order that cannot be read is refused", "Outcome.ACCEPTED : Outcome.UNKNOWN",
     "Outcome.ACCEPTED : Outcome.REFUSED", ACCEPTED_UNKNOWN),
    ("does not wait for the start", "START_SOON_MS = 5_000", "START_SOON_MS = 0", SOON),
    ("gets no ticket", "needsTicket |= TICKET_CODES.contains(problem.code);", "needsTicket |= false;", TICKET),
    ("commands without a key", 'command(path, json, Map.of("Idempotency-Key", key), null)',
     "command(path, json, Map.of(), null)", COMMANDED),
    ("creates under another key than it tells", 'key), "phase").under(key)', 'key), "phase").under("k")', CREATED),
    ("each user has a client", "return new SeckillClient(http, url, headers, mostMs);",
     "return new SeckillClient(HttpClient.newHttpClient(), url, headers, mostMs);", MANY),
    ("headers are asked for once", "        this.headers = headers;", "        this.headers = fixed(headers.get());",
     HEADERS),
    ("a login that fails ends a purchase", "catch (RuntimeException cause)", "catch (IllegalCallerException cause)",
     FAILING_LOGIN),
    ("a try without a login may have bought", 'Set.of("PENDING", "NO_LOGIN").contains(problem.code)',
     'problem.code.equals("PENDING")', FAILING_LOGIN),
    ("what a login has thrown is lost", "Map.of()).from(cause);", "Map.of());", FAILING_LOGIN),
    ("an unknown purchase has no key", ": result).under(key);", ": result);", KEY),
    ("a call has no bound", "answer.get(timeoutMs,", "answer.get(CALL_MS,", BOUNDED),
    ("tries have no bound", " || delay >= leftMs(until);\n                if", ";\n                if", BOUNDED),
    ("a ticket's work has no bound", "nonce % 4096 == 0", "nonce < 0", BOUNDED),
    ("a stream has no bound", "lines.poll(Math.min(SILENCE_MS, leftMs(until)), ", "lines.poll(SILENCE_MS, ", BOUNDED),
    ("following has no bound", "if (delay < leftMs(until)) {", "if (delay >= 0) {", IN_TIME),
    ("a late payment is done", '"to_refund".equals(recorded.get("state")) ? ', "false ? ", PAID_LATE),
    ("a late payment is given back twice", '"to_refund".equals(recorded.get("state")) ? ',
     '!"paid".equals(result.body().get("status")) ? ', PAID_BACK),
    ("an answer without the payment is a success", 'result.as(Outcome.UNKNOWN, "NOT_OURS")', "result", PAID_BACK),
    ("the feed begins anew", 'query("after", after)', 'query("after", null)', FEED),
    ("a watch outlives the sale", '"ended".equals(event.get("phase"))', '"closed".equals(event.get("state"))',
     SALE_ENDS),
    ("a stream has no headers", 'request("/vouchers/" + voucherId + "/events").setHeader',
     'HttpRequest.newBuilder(URI.create(url + "/vouchers/" + voucherId + "/events")).setHeader', LOGIN),
    ("a stream is opened once", "failures = readStream(voucherId, hear, until) ? 1 : failures;",
     "failures = failures == 1 && readStream(voucherId, hear, until) ? 2 : failures;", BROKEN_STREAM),
    ("no polling without a stream", "                hear.test(voucher);\n", "", NO_STREAM),
    ("states queue up", "lines.clear();", "", SLOW),
    ("polls tell PostgreSQL's units", 'voucher.put("remaining", null);', "", AWAY),
    ("all money has two digits", "THREE_DIGITS.contains(currency) ? 3 : 2", "2", MONEY),
)

BROKEN_CLIENTS = [("web", what, *rest) for what, *rest in WEB] + [
    ("java", what, "seckill/SeckillClient.java", *rest) for what, *rest in JAVA
]

# What is broken; the language and step of a block, or the page and nothing; and the change.
BROKEN_BLOCKS: tuple[tuple[str, str, str, str, str], ...] = (
    ("curl does not repeat", "sh", "buy", "--retry 8 --retry-all-errors ", ""),
    ("curl buys nothing", "sh", "buy", "-X POST ", ""),
    ("curl follows to the first answer of any kind", "sh", "follow",
     """grep -Eq '"status" *: *"(unpaid|paid|refused|cancelled|expired|refunded)"' order.json""", "true"),
    ("TypeScript reads a result that may be none", "ts", "create", "made.outcome === 'done' ? made.body.id : made.code",
     "made.body.id"),
    ("Java pays another amount", "java", "pay", "990", "991"),
    ("Python takes a lost answer for a refusal", "python", "seckill.py", "pass  # no answer, or half of one",
     'return 0, {"code": "TIMEOUT"}'),
    ("Python ends with half an error", "python", "seckill.py",
     "except (OSError, http.client.HTTPException, ValueError):", "except (OSError, ValueError):"),
    ("Python takes a date for seconds", "python", "seckill.py", 'if (retry_after or "").isdecimal() else',
     "if retry_after else"),
    ("Python creates without a key", "python", "create", '"Idempotency-Key": str(uuid.uuid4())',
     '"X-Key": str(uuid.uuid4())'),
    ("Python cancels nothing", "python", "cancel", "/cancel", "/pay"),
    ("Java takes a late payment for a success", "java", "pay", "paid.outcome()", '"DONE"'),
    ("TypeScript takes a late payment for a success", "ts", "pay", "'too late, pay it back:'", "'done'"),
    ("Python gives a payment back twice", "python", "pay", 'states.get(payment["reference"]) == "to_refund"',
     'order["status"] != "paid"'),
    ("curl sends no token of the login", "sh", "a login's token", "Authorization: Bearer $LOGIN_TOKEN", "X-Token: 1"),
    ("Java sends another token", "java", "a login's token", 'getenv("LOGIN_TOKEN")', 'getenv("LANG")'),
    ("a block of the translation is another", "page", "", "sleep 1", "sleep 2"),
)

# What is broken of a receiver; its language, what must fail, and the change.
BROKEN_RECEIVERS: tuple[tuple[str, str, str, str, str], ...] = (
    ("posts are not deduplicated", "python", SENT,
     ' UNIQUE NOT NULL, body TEXT)")\n        db.executemany("INSERT INTO event (id, body) VALUES (?, ?) ON CONFLICT (id) DO NOTHING",',
     ', body TEXT)")\n        db.executemany("INSERT INTO event (id, body) VALUES (?, ?)",'),
    ("posts are not deduplicated", "js", SENT, "seen.has(id) ? '' : row", "row"),
    ("posts are not deduplicated", "java", SENT, "rows.keySet().removeAll(seen);", ""),
    ("pages are deduplicated, not events", "js", ANSWERS, "seen.has(id) ? '' : row",
     "[...rows.keys()].every((one) => seen.has(one)) ? '' : row"),
    ("ids are forgotten at a restart", "js", ANSWERS, "lines.map((line) => JSON.parse(line).id)", ""),
    ("ids are forgotten at a restart", "java", ANSWERS,
     'text.lines().forEach(line -> seen.add((String) SeckillClient.Json.readObject(line).get("id")));', ""),
    ("answers before it stores", "python", SENT, "        store(rows)\n        self.answer(204)",
     "        self.answer(204)\n        self.wfile.flush(), self.connection.shutdown(1), time.sleep(0.2)\n        store(rows)"),
    ("answers before it stores", "js", SENT, "    store(rows);", "    setTimeout(() => store(rows), 200);"),
    ("answers before it stores", "java", SENT, "            store(rowsOf(body));",
     "            var rows = rowsOf(body);\n            new Timer(true).schedule(new TimerTask() { public void run() {\n"
     "try { synchronized (seen) { store(rows); } } catch (IOException error) { System.exit(1); } } }, 200);"),
    ("signatures are not verified", "python", ANSWERS, "return any([", "return True or any(["),
    ("signatures are not verified", "js", ANSWERS, "return SECRETS.some(", "return true || SECRETS.some("),
    ("signatures are not verified", "java", ANSWERS, "return isSigned;", "return true;"),
    ("an old post is taken", "python", ANSWERS, "> AGE_MOST", "> 1e9"),
    ("an old post is taken", "js", ANSWERS, "> AGE_MOST", "> 1e9"),
    ("an old post is taken", "java", ANSWERS, "> AGE_MOST", "> 1_000_000_000"),
    ("a post of the future is taken", "python", ANSWERS, "abs(time.time() - int(sent_at))", "time.time() - int(sent_at)"),
    ("the time is not signed", "js", ANSWERS, "${id}.${sentAt}.", "${id}."),
    ("the id is not signed", "java", ANSWERS, '(id + "." + sentAt', '("." + sentAt'),
    ("the second secret is not known", "python", ANSWERS, '["WEBHOOK_SECRETS"].split()', '["WEBHOOK_SECRETS"].split()[:1]'),
    ("the second secret is not known", "js", ANSWERS, "SECRETS.some(", "SECRETS.slice(0, 1).some("),
    ("the second secret is not known", "java", ANSWERS, '.split(" ")) {\n            macs',
     '.split(" ", -1)) {\n            if (!macs.isEmpty()) { break; }\n            macs'),
    ("only the first signature counts", "python", ANSWERS, ".encode().split()", ".encode().split()[:1]"),
    ("only the first signature counts", "js", ANSWERS, "given.split(' ').some(", "given.split(' ', 1).some("),
    ("a broken body is taken", "python", ANSWERS, "return self.answer(400)", "return self.answer(204)"),
    ("a broken body is taken", "js", ANSWERS, "return 400;", "return 204;"),
    ("a broken body is taken", "java", ANSWERS, "return 400;", "return 204;"),
    ("a body without a bound is taken", "python", ANSWERS, " or int(length) > BODY_MOST", ""),
    ("a body without a bound is taken", "js", ANSWERS, "<= BODY_MOST", "<= 1e9"),
    ("a body without a bound is taken", "java", ANSWERS, "BODY_MOST = 1_000_000", "BODY_MOST = 1_000_000_000"),
    ("a single event is not known", "python", ANSWERS, "else [page]", "else []"),
    ("a test is stored", "java", ANSWERS, 'case "seckill.test" -> List.of();', ""),
    ("half a line stays", "js", ANSWERS, "written.lastIndexOf('\\n') + 1", "written.length"),
    ("half a line stays", "java", ANSWERS, "table.truncate(size);", "size = table.size();"),
)
