"""A way to provoke each code: the steps that make the service answer with it.

The test fails for a code of the document that is reached neither here nor by an allowed or forbidden call. Then add a
way to provoke it, or a reason in NOT_PROVOKED.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from contextlib import contextmanager

from service import ORIGINS, READ_TOKEN, Exchange, Service, Shop, bearer, signed, user, wait_for
from stack import free_port
from user_tokens import ENV, KEYS, bad_tokens, token

NOT_PROVOKED: dict[str, str] = {}

UNKNOWN_ORDER = "018bcfe5-6800-7000-8000-0123456789ab"
JSON = [("Content-Type", "application/json")]


TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def buy(service: Service, voucher: str, who: str = "alice", quantity: int | None = None, *more: tuple[str, str]) -> Exchange:
    body = None if quantity is None else {"quantity": quantity}
    return service.ask("POST", f"/seckill/{voucher}", user(who) + list(more), body)


def until(code: str, ask, seconds: float = 15.0) -> None:
    """Repeats the call until the code comes, for temporary conditions."""
    wait_for(f"{code}", lambda: ask().code() == code, seconds)


@contextmanager
def held_orders(shop: Shop):
    """Orders cannot be written, but can be read."""
    command = shop.stack.postgres.psql("seckill")
    session = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    session.stdin.write("begin; lock table voucher_order in share mode; select 'held';\n")
    session.stdin.flush()
    while "held" not in session.stdout.readline():
        pass
    try:
        yield
    finally:
        session.stdin.close()
        session.wait()


# ---- purchases ----


def offer_changed(shop: Shop) -> None:
    """The price changes in both stores, without a notification to the instance: until its next poll it checks purchases
    by the old price."""
    voucher, tries = shop.voucher(), iter(range(100))

    def another_price() -> Exchange:
        shop.stack.postgres.sql(
            "set session_replication_role = replica; update seckill_catalogue set change = change + 1;"
            " update seckill_voucher set price_cents = price_cents + 1, offer = offer + 1,"
            f" change = (select change from seckill_catalogue) where id = {voucher}"
        )
        shop.stack.redis.call("HINCRBY", f"seckill:{{{voucher}}}:voucher", "offer", 1)
        return buy(shop.main, voucher, f"user-{next(tries)}")

    until("OFFER_CHANGED", another_price)


def purchases(shop: Shop) -> None:
    main = shop.main
    buy(main, shop.voucher(stock=0))  # SOLD_OUT
    buy(main, shop.voucher(begin_s=3600, end_s=7200))  # NOT_STARTED
    buy(main, shop.voucher(begin_s=-7200, end_s=-3600, allow_past=True))  # ENDED
    buy(main, shop.voucher(stock=1), "alice", 2)  # NOT_ENOUGH
    buy(main, "999999")  # UNKNOWN_VOUCHER
    buy(main, "999999", "alice", None, ("traceparent", TRACE))  # the same, with trace_id
    main.ask("GET", "/vouchers/events?ids=1,999999")  # the same, with errors
    paused = shop.voucher()
    main.ask("POST", f"/admin/vouchers/{paused}/pause", bearer())
    buy(main, paused)  # PAUSED
    offer_changed(shop)
    voucher = shop.voucher()
    buy(main, voucher)
    buy(main, voucher)  # ALREADY_ORDERED
    buy(main, voucher, "bob", 3)  # above the voucher's limit
    for quantity in (1, 2):  # the first answer again; IDEMPOTENCY_KEY_REUSED
        for _ in range(2):
            buy(main, voucher, "carol", quantity, ("Idempotency-Key", "k-1"))
    buy(main, voucher, "dave", None, ("Prefer", "respond-async"))  # 202
    strict = shop.voucher(orders_per_user=1)
    order = shop.order(strict, "nina")
    main.ask("POST", f"/orders/{order}/cancel", user("nina"))
    buy(main, strict, "nina")  # TOO_MANY_ORDERS
    line = shop.voucher(stock=1, waitlist=1)
    shop.order(line, "olga")
    for who in ("paul", "quinn"):  # 202; WAITLIST_FULL
        main.ask("POST", f"/seckill/{line}", user(who), {"wait": True})


def loading(shop: Shop) -> None:
    """A rebuild that does not end: another instance holds its lock."""
    voucher = shop.voucher()
    redis = shop.stack.redis
    redis.call("SET", f"seckill:lock:rebuild:{{{voucher}}}", "another", "PX", 5000)
    redis.call("HSET", f"seckill:{{{voucher}}}:voucher", "state", "loading")
    until("LOADING", lambda: buy(shop.main, voucher))
    shop.main.ask("POST", f"/admin/vouchers/{voucher}/reconcile", bearer())
    redis.call("DEL", f"seckill:lock:rebuild:{{{voucher}}}")


def scopes(shop: Shop) -> None:
    """One order for two vouchers; and an instance that knows no scopes."""
    first = shop.voucher()
    second = shop.voucher(scope=first)
    buy(shop.main, first, "sam")
    buy(shop.main, second, "sam")  # ALREADY_ORDERED
    shop.main.ask("PATCH", f"/admin/vouchers/{second}", bearer(), {"scope": second})
    redis, texts = shop.stack.redis, "seckill:{shared}:instances"
    session = redis.call("HKEYS", texts)[0]
    told = redis.call("HGET", texts, session)
    redis.call("HSET", texts, session, "0.1.0 1 3000 older:8080")
    body = {"title": "Late", "stock": 1, "price_cents": 1, "begin_at": "2026-01-01T00:00:00Z", "end_at": "2036-01-01T00:00:00Z"}
    shop.main.ask("POST", "/admin/vouchers", bearer(), body | {"scope": first})  # SCOPES_OFF
    redis.call("HSET", texts, session, told)
    shop.main.ask("POST", "/admin/vouchers", bearer(), body | {"scope": "999999"})  # INVALID


# ---- orders ----


def moves(shop: Shop) -> None:
    main, voucher = shop.main, shop.voucher()
    order, other = shop.order(voucher, "erin"), shop.order(voucher, "frank")

    def pay(order: str, reference: str, amount: int = 990) -> None:
        body = json.dumps({"reference": reference, "amount_cents": amount, "currency": "CNY"}).encode()
        path = f"/orders/{order}/pay"
        main.ask("POST", path, signed(path, body) + JSON, body)

    def extend(order: str, reference: str) -> None:
        main.ask("POST", f"/orders/{order}/extend", bearer(), {"reference": reference, "extend_s": 60})

    extend(order, "m-1")
    extend(order, "m-2")  # ALREADY_EXTENDED
    extend(UNKNOWN_ORDER, "m-3")  # NOT_FOUND
    extend(shop.order(shop.voucher(extend_s=0), "erin"), "m-1")  # EXTENSION_OFF
    pay(order, "m-1", 1)  # WRONG_AMOUNT
    pay(order, "m-1")
    pay(order, "m-1")
    pay(order, "m-2")  # ALREADY_PAID
    pay(other, "m-1")  # REFERENCE_USED
    extend(other, "m-1")  # REFERENCE_USED
    pay(UNKNOWN_ORDER, "m-3")  # NOT_FOUND
    main.ask("POST", f"/orders/{order}/cancel", user("erin"))  # WRONG_STATE
    main.ask("POST", f"/orders/{order}/cancel", user("grace"))  # NOT_FOUND
    main.ask("POST", f"/orders/{other}/refund", bearer(), {})  # WRONG_STATE
    main.ask("POST", f"/orders/{other}/cancel", user("frank"))
    pay(other, "m-4")  # to be refunded
    main.ask("GET", "/admin/payments?state=to_refund", bearer(READ_TOKEN))
    main.ask("GET", f"/orders/{other}", user("frank"))
    main.ask("GET", f"/admin/vouchers/{voucher}/settlement", bearer(READ_TOKEN))
    main.ask("POST", f"/orders/{other}/refund", bearer(), {"reference": "m-1"})  # UNKNOWN_PAYMENT
    main.ask("POST", f"/orders/{other}/refund", bearer(), {"reference": "m-4"})
    extend(other, "m-4")  # WRONG_STATE
    main.ask("GET", "/admin/events?last=20", bearer(READ_TOKEN))
    main.ask("GET", f"/orders/{other}", user("frank"))
    main.ask("GET", f"/orders/{order}", bearer(READ_TOKEN))
    main.ask("GET", f"/orders/{order}?wait=1", user("erin"))
    main.ask("GET", "/orders", user("frank"))
    path = f"/orders/{order}/pay"
    main.ask("POST", path, signed(path, b"other") + JSON, b"{}")  # BAD_SIGNATURE
    main.ask("POST", path, bearer(READ_TOKEN) + JSON, b"{}")  # FORBIDDEN


def pending(shop: Shop) -> None:
    main, voucher = shop.main, shop.voucher()
    with held_orders(shop):
        placed = buy(main, voucher, "heidi", None, ("Prefer", "respond-async"))
        order = json.loads(placed.answer)["id"]
        main.ask("GET", f"/orders/{order}", user("heidi"))
        main.ask("GET", "/orders", user("heidi"))
        until("PENDING", lambda: main.ask("POST", f"/orders/{order}/cancel", user("heidi")))
        until("PENDING", lambda: main.ask("GET", f"/orders/{order}", bearer(READ_TOKEN)))


def archived(shop: Shop) -> None:
    """ARCHIVED: retired, and moved out of PostgreSQL as by `seckill archive`."""
    main, voucher = shop.main, shop.voucher()
    order = shop.order(voucher, "rita")
    shop.sql(
        "update seckill_voucher set state = 'retired', begin_at = now() - interval '3 days',"
        f" end_at = now() - interval '2 days' where id = {voucher}"
    )
    shop.sql(
        "select archive_next(0, 1); select archive_drop(p.voucher, p.part, 100, p.digest) from"
        f" (select {voucher}::bigint as voucher, * from archive_part({voucher}, 100)) p"
    )
    until("ARCHIVED", lambda: buy(main, voucher, "rita"))
    until("ARCHIVED", lambda: main.ask("GET", f"/orders/{order}", user("rita")))
    main.ask("POST", f"/orders/{order}/cancel", user("rita"))
    main.ask("POST", f"/orders/{order}/refund", bearer(), {})
    main.ask("POST", f"/orders/{order}/pay", bearer(), {"reference": "m-9", "amount_cents": 990, "currency": "CNY"})
    main.ask("POST", f"/admin/vouchers/{voucher}/reconcile", bearer())


# ---- operators ----


def operators(shop: Shop) -> None:
    main = shop.main
    looks = {"description": "Spring harvest", "picture": "https://pictures.example/tea.webp"}
    voucher = shop.voucher(stock=10, more_at="2099-01-31T20:30:00+08:00", **looks)
    at = f"/admin/vouchers/{voucher}"
    main.ask("PATCH", at, bearer(), {"price_cents": 1})  # STARTED
    main.ask("PATCH", at, bearer() + [("If-Match", '"1"')], {"title": "x"})  # VERSION_CHANGED
    main.ask("POST", f"{at}/stock", bearer(), {"reduce": 11})  # BELOW_SOLD
    for add in (1, 2):  # IDEMPOTENCY_KEY_REUSED
        main.ask("POST", f"{at}/stock", bearer() + [("Idempotency-Key", f"s-{voucher}")], {"add": add})
    main.ask("POST", f"{at}/close", bearer())
    for headers in ([], [("traceparent", TRACE)]):  # 204
        main.ask("GET", f"{at.removeprefix('/admin')}/events", [("Last-Event-ID", "end"), *headers])
    main.ask("POST", f"{at}/resume", bearer())  # WRONG_STATE
    main.ask("GET", f"{at}/audit?limit=1", bearer())
    main.ask("GET", "/admin/vouchers/999999", bearer())
    main.ask("POST", "/admin/vouchers/999999/pause", bearer())
    for what in ("hold-expiry", "release-expiry"):
        main.ask("POST", f"/admin/vouchers/999999/{what}", bearer())
        main.ask("POST", f"{at}/{what}", bearer())
        main.ask("POST", f"/admin/{what}", bearer())
        main.ask("GET", "/admin/troubles", bearer(READ_TOKEN))
    letter = shop.letter(voucher)
    main.ask("GET", f"{at}/dead-letters", bearer())
    main.ask("POST", f"{at}/dead-letters/{letter}/requeue", bearer())  # UNREADABLE
    main.ask("POST", f"{at}/dead-letters/999999/requeue", bearer())  # NOT_FOUND
    main.ask("GET", "/admin/nothing", bearer())
    main.ask("GET", f"{at}/nothing", bearer())
    for form in ("json", "text", "csv"):
        main.ask("GET", f"{at}/settlement?format={form}", bearer())


def pages(shop: Shop) -> None:
    """The next page of each list, and its cursor used for another list."""
    voucher = shop.voucher()
    for name in ("ivan", "judy", "kim"):
        shop.order(voucher, name)
    shop.order(shop.voucher(), "ivan")
    at = f"/admin/vouchers/{voucher}"
    for _ in range(2):
        shop.letter(voucher)
        shop.main.ask("POST", f"{at}/stock", bearer(), {"add": 1})
    targets = ("/vouchers", "/admin/vouchers", f"/admin/orders?voucher={voucher}", "/orders", "/admin/events")
    targets += (f"{at}/dead-letters", f"{at}/audit")
    cursors = []
    for target in targets:
        who = user("ivan") if target == "/orders" else bearer()
        mark = "&" if "?" in target else "?"
        name = "after" if target == "/admin/events" else "cursor"
        first = shop.main.ask("GET", f"{target}{mark}limit=1", who)
        cursors.append(json.loads(first.answer)["next"])
        shop.main.ask("GET", f"{target}{mark}limit=1&{name}={cursors[-1]}", who)
        shop.main.ask("GET", f"{target}{mark}{name}={cursors[0 if len(cursors) > 1 else -1]}x", who)
        if target == "/admin/events":
            last = json.loads(shop.main.ask("GET", f"{target}?last=1", who).answer)["next"]
            shop.main.ask("GET", f"{target}?after={last}", who)
            shop.main.ask("GET", f"{target}?last=1&after={last}", who)


def tickets(shop: Shop) -> None:
    main, voucher = shop.main, shop.voucher(ticket=True)
    at = f"/vouchers/{voucher}/ticket"
    buy(main, voucher)  # TICKET_REQUIRED
    given = json.loads(main.ask("POST", at, user("alice")).answer)["ticket"]
    buy(main, voucher, "bob", None, ("X-Seckill-Ticket", given))  # TICKET_INVALID
    buy(main, voucher, "alice", None, ("X-Seckill-Ticket", given))
    bare = shop.another(SECKILL_TICKET_SECRET="")
    for method, path in (("POST", f"/seckill/{voucher}"), ("POST", at), ("GET", at)):  # TICKETS_OFF
        bare.ask(method, path, user("carol"))
    working = shop.voucher(ticket=True, work_bits=4)
    at = f"/vouchers/{working}/ticket"
    main.ask("POST", at, user("alice"))  # WORK_REQUIRED
    challenge = json.loads(main.ask("GET", at, user("alice")).answer)["challenge"]
    main.ask("POST", at, user("alice"), {"challenge": challenge[::-1], "nonce": "1"})  # WORK_INVALID
    for nonce in range(10**6):
        if main.ask("POST", at, user("alice"), {"challenge": challenge, "nonce": str(nonce)}).status == 200:
            break


# ---- trouble ----


def trouble(shop: Shop) -> None:
    """INTERNAL: PostgreSQL rejects what it should accept. ADMIN_OFF, RATE_LIMITED, OVERLOADED: by configuration."""
    shop.sql("alter table seckill_voucher add constraint odd check (title <> 'odd')")
    terms = {"title": "odd", "stock": 1, "price_cents": 1, "begin_at": "2026-01-01T00:00:00Z", "end_at": "2099-01-01T00:00:00Z"}
    shop.main.ask("POST", "/admin/vouchers", bearer(), terms)
    shop.sql("alter table seckill_voucher drop constraint odd")

    closed = shop.another(SECKILL_ADMIN_TOKEN="", SECKILL_ADMIN_TOKENS_FILE="")
    closed.ask("GET", "/admin/vouchers", bearer())
    limited = shop.another(SECKILL_USER_RATE="1")
    voucher = shop.voucher()
    until("RATE_LIMITED", lambda: buy(limited, voucher, "leo"))
    narrow, waiting = shop.another(SECKILL_LONG_PER_USER="1"), f"/orders/{shop.order(voucher, 'olga')}?wait=2&while=unpaid"
    asking = [threading.Thread(target=narrow.ask, args=("GET", waiting, user("olga"))) for _ in range(2)]  # OVERLOADED
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    small = shop.another(SECKILL_ORDERS_MAX="1", SECKILL_BATCH_MAX="1")
    names = (f"m{n}" for n in range(10**6))
    with held_orders(shop):
        until("OVERLOADED", lambda: buy(small, voucher, next(names), None, ("Prefer", "respond-async")))


def limited(shop: Shop, ready: list[tuple]) -> None:
    """RATE_LIMITED, for all calls that count for an address; the others are the shop's own."""
    service = shop.another(SECKILL_ADDRESS_RATE="1", SECKILL_USER_RATE="5")
    for one in ready:
        for _ in range(3):
            service.ask(*one)


def tokens(shop: Shop) -> None:
    """An instance that accepts users' tokens."""
    keys = shop.stack.folder / "user-keys"
    keys.write_text(KEYS)
    service, voucher = shop.another(SECKILL_TOKEN_KEYS=str(keys), **ENV), shop.voucher()
    path = f"/seckill/{voucher}"
    placed = service.ask("POST", path, bearer(token("rupert")))
    if placed.status != 201:
        raise RuntimeError(f"a good token: {placed}")
    order = json.loads(placed.answer)["id"]
    service.ask("GET", "/orders", bearer(token("rupert")))
    for who in (token("rupert"), token("sybil"), READ_TOKEN):
        service.ask("GET", f"/orders/{order}", bearer(who))
    service.ask("POST", f"/orders/{order}/cancel", bearer(token("rupert")))
    service.ask("GET", "/admin/vouchers", bearer(token("rupert")))  # UNAUTHENTICATED
    refused = [service.ask("POST", path, bearer(bad)) for bad in bad_tokens("trudy").values()]
    refused += [service.ask("POST", path, user("trudy")), service.ask("POST", path)]
    bodies = {exchange.answer for exchange in refused if exchange.status == 401}
    if len(bodies) != 1 or any(exchange.status != 401 for exchange in refused):
        raise RuntimeError(f"bad tokens: {[e.status for e in refused]}, {bodies}")


def ending(shop: Shop) -> None:
    """SHUTTING_DOWN: an order delays the shutdown, and another arrives on an existing connection."""
    last = shop.another(SECKILL_CONFIRM_TIMEOUT_MS="10000", SECKILL_DRAIN_TIMEOUT_MS="8000", SECKILL_PG_TIMEOUT_MS="9000")
    voucher = shop.voucher()
    link = last.link()
    last.ask("GET", "/healthz", link=link)
    with held_orders(shop):
        first = threading.Thread(target=buy, args=(last, voucher, "nina"))
        first.start()
        wait_for("a buyer", lambda: shop.stack.redis.call("HLEN", f"seckill:{{{voucher}}}:buyers") == 1)
        last.instance.signal(signal.SIGTERM)
        wait_for("the end of listening", lambda: not listens(last.instance.port))
        last.ask("POST", f"/seckill/{voucher}", user("olaf"), link=link)
    first.join()
    link.close()


def pages_of_others(shop: Shop) -> None:
    """Preflights for a listed and another origin, and where no origin is listed."""
    bare = shop.another()
    for service in (shop.main, bare):
        for origin in (*ORIGINS, "https://other.example", "null"):
            for method in ("GET", "POST", "PATCH"):
                asks = [("Origin", origin), ("Access-Control-Request-Method", method)]
                service.ask("OPTIONS", "/seckill/7", asks + [("Access-Control-Request-Headers", "x-user-id,traceparent")])
    for call in ("seckill/7", f"orders/{UNKNOWN_ORDER}/cancel", "vouchers/7/ticket"):
        shop.main.ask("POST", f"/{call}", user("alice") + [("Origin", "https://other.example")])  # CROSS_SITE
        shop.main.ask("POST", f"/{call}", user("alice") + [("Sec-Fetch-Site", "cross-site")])
    shop.main.ask("GET", "/vouchers", [("Origin", ORIGINS[0]), ("Origin", ORIGINS[0])])
    shop.main.ask("OPTIONS", "/seckill/7", [("Origin", ORIGINS[0])])  # not sent by browsers: METHOD_NOT_ALLOWED


def shard_away(shop: Shop) -> None:
    """One of two shards is away: lists are incomplete, and /readyz names it. In a database of its own."""
    postgres, folder = shop.stack.postgres, shop.stack.folder
    postgres.sql("create database half owner owner", "postgres")
    for login in ("owner", "seckill"):
        there = postgres.url(login).removesuffix("seckill") + "half"
        (folder / f"half-{login}").write_text(f"{there}\n{postgres.url(login, free_port())}\n")
    migrate = os.environ | {"SECKILL_SHARDS": str(folder / "half-owner")}
    subprocess.run([str(shop.stack.binary), "--migrate"], env=migrate, capture_output=True)
    half = shop.another(SECKILL_DATABASE_URL="", SECKILL_SHARDS=str(folder / "half-seckill"))
    half.ask("GET", "/readyz")
    half.ask("GET", "/vouchers")
    half.ask("GET", "/orders", user("alice"))
    shop.receiver("half")
    for path in ("/admin/vouchers", "/admin/events", "/admin/webhooks"):
        half.ask("GET", path, bearer())
    half.instance.end(signal.SIGTERM)  # it would share the work on vouchers that it does not know


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def away(shop: Shop, ready: list[tuple]) -> None:
    """UNAVAILABLE, for all calls. It runs last, since the service must find its stores again afterwards."""
    voucher = shop.voucher()
    order = shop.order(voucher, "pia")
    shop.stack.redis.end(signal.SIGKILL)
    until("UNAVAILABLE", lambda: buy(shop.main, voucher, "quentin"))
    shop.stack.postgres.end(signal.SIGQUIT)
    main = shop.main
    until("UNAVAILABLE", lambda: main.ask("GET", "/readyz"))
    main.ask("GET", f"/orders/{order}", user("pia"))
    asking = [threading.Thread(target=main.ask, args=one) for one in ready]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()


ALL = (purchases, loading, scopes, moves, pending, archived, operators, pages, pages_of_others, tickets, trouble, tokens, shard_away, ending)
