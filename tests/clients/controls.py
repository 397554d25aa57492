"""Negative controls: each breaks a rule of a client, or a block of the cookbook, as a careless change would, and names
what must fail of it."""

from __future__ import annotations

LOST = "an answer that is lost is asked for again, under the same key"
LATE = "an answer that does not come has its time-out, its body, too"
PAGES = "a gateway's page is no answer, whatever its status"
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
NO_STREAM = "where no stream can be had the voucher is asked for"

# What is broken, in which file, by which change; and the scenario that must fail.
WEB: tuple[tuple[str, str, str, str, str], ...] = (
    ("a time-out is a refusal", "outcome.js", "return { outcome: AGAIN, isLost: true, isKnown: false };",
     "return { outcome: 'refused', isLost: false, isKnown: true };", LOST),
    ("after a lost answer 401 is a refusal", "outcome.js", "isLost || (wasLost && !isKnown)", "isLost", DOUBTFUL),
    ("a gateway's page is a refusal", "outcome.js", "isLost: isOther, isKnown: status === 409 && !isOther",
     "isLost: false, isKnown: status === 409", PAGES),
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
    ("no pause between questions", "orders.js", "        await pause(delay, signal);\n", "", NO_WAIT),
    ("no place to wait: asks to wait again", "orders.js", "problem.code !== 'OVERLOADED'",
     "problem.code !== ''", FOLLOWING),
    ("an accepted order that cannot be read is refused", "index.js", "({ outcome: 'unknown', code, orderId })",
     "({ outcome: 'refused', code, orderId })", ACCEPTED_UNKNOWN),
    ("does not wait for the start", "purchase.js", "START_SOON_MS = 5000", "START_SOON_MS = 0", SOON),
    ("gets no ticket", "index.js", "if (isNeeded) {", "if (false) {", TICKET),
    ("creates without a key", "index.js", "command('/admin/vouchers', terms, { key, ...options })",
     "command('/admin/vouchers', terms, options)", CREATED),
    ("a stream is opened once", "events.js", "for (let failures = 1; !ending.signal.aborted; failures++)",
     "for (let failures = 1; failures < 2; failures++)", BROKEN_STREAM),
    ("no polling without a stream", "events.js", "                if (!stream.runs()) {\n                    const",
     "                if (stream.runs()) {\n                    const", NO_STREAM),
)

JAVA: tuple[tuple[str, str, str, str], ...] = (
    ("a time-out is a refusal", "return new Judged(true, true, false, null);",
     "return new Judged(false, false, true, null);", LOST),
    ("after a lost answer 401 is a refusal", "judged.isLost || (wasLost && !judged.isKnown)",
     "judged.isLost", DOUBTFUL),
    ("a gateway's page is a refusal", "new Judged(false, isOther, problem.status == 409 && !isOther, null)",
     "new Judged(false, false, true, null)", PAGES),
    ("tries without end", "TRIES_MOST = 12", "TRIES_MOST = 99", UNKNOWN),
    ("an earlier try is forgotten", "boolean wasLost = isDoubtful;", "boolean wasLost = false;", DOUBTFUL),
    ("another key for each try", 'new LinkedHashMap<>(Map.of("Idempotency-Key", key))',
     'new LinkedHashMap<>(Map.of("Idempotency-Key", UUID.randomUUID().toString()))', LOST),
    ("Retry-After is not read", "if (retryAfterMs.isPresent()) {", "if (retryAfterMs.orElse(0) < 0) {", RETRY_AFTER),
    ("no jitter", "return asked + random(Math.max(250, asked / 2));", "return asked;", JITTER),
    ("no time-out", "answer.get(timeoutMs, TimeUnit.MILLISECONDS)", "answer.get(timeoutMs, TimeUnit.HOURS)", LATE),
    ("a 202 is a win", 'new Result(Outcome.UNKNOWN, "ACCEPTED", 202, none, order)',
     "new Result(Outcome.WON, null, 202, none, order)", ACCEPTED),
    ("no long poll", '"?wait=" + WAIT_S + "&while=" + status', '""', ACCEPTED),
    ("no pause between questions", "            pause(delay);\n", "", NO_WAIT),
    ("no place to wait: asks to wait again", '!problem.code.equals("OVERLOADED")',
     '!problem.code.equals("")', FOLLOWING),
    ("an accepted order that cannot be read is refused",
     "return new Result(Outcome.UNKNOWN, problem.code, problem.status",
     "return new Result(Outcome.REFUSED, problem.code, problem.status", ACCEPTED_UNKNOWN),
    ("does not wait for the start", "START_SOON_MS = 5_000", "START_SOON_MS = 0", SOON),
    ("gets no ticket", "needsTicket |= TICKET_CODES.contains(problem.code);", "needsTicket |= false;", TICKET),
    ("creates without a key", 'command("/admin/vouchers", terms, Map.of("Idempotency-Key", key))',
     'command("/admin/vouchers", terms, Map.of())', CREATED),
    ("a stream is opened once", "failures = readStream(voucherId, hear) ? 1 : failures;",
     "failures = failures == 1 && readStream(voucherId, hear) ? 2 : failures;", BROKEN_STREAM),
    ("no polling without a stream", 'hear.test(call("GET", "/vouchers/" + voucherId, null, Map.of(), CALL_MS).body);',
     'call("GET", "/vouchers/" + voucherId, null, Map.of(), CALL_MS);', NO_STREAM),
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
    ("Python creates without a key", "python", "create", '"Idempotency-Key": str(uuid.uuid4())',
     '"X-Key": str(uuid.uuid4())'),
    ("Python cancels nothing", "python", "cancel", "/cancel", "/pay"),
    ("a block of the translation is another", "page", "", "sleep 1", "sleep 2"),
)
