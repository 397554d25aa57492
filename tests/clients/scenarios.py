"""What a client must do, whatever happens between it and the service. Each scenario has a voucher, orders and a proxy
of its own; both clients run the same ones."""

from __future__ import annotations

import json
import re
import tempfile
import time
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Callable, Iterator

import lab
from lab import Client
from proxy import PAGE, Proxy, answer, instead, problem

HTML = "text/html"
LATER = 2  # seconds of Retry-After
scenarios: dict[str, Callable[[Client], None]] = {}


def scenario(name: str, only: str | None = None):
    """`only`: the client that it is of."""

    def add(run: Callable[[Client], None]) -> Callable[[Client], None]:
        scenarios[name] = run
        run.only = only
        return run

    return add


@contextmanager
def through(*rules: tuple[str, list], login: tuple[str, str] | None = None) -> Iterator[Proxy]:
    proxy = Proxy(lab.URL, list(rules), login)
    try:
        yield proxy
    finally:
        proxy.close()


def page(status: int, made=instead):
    return made(status, PAGE, Content_Type=HTML)


def expect(result: dict, outcome: str, code: str | None = None) -> dict:
    got = result["outcome"], result.get("code")
    assert got == (outcome, code), f"{got} instead of {(outcome, code)}: {result}"
    return result


def expect_one_order(voucher: str, result: dict) -> None:
    """The client's order is the only one, and every question for it had one key."""
    found = lab.orders(voucher)
    assert [one["id"] for one in found] == [result["id"]], f"{found} instead of {result['id']}"


def expect_one_key(proxy: Proxy) -> None:
    keys = {one.headers.get("idempotency-key") for one in proxy.requests("POST /seckill/")}
    assert len(keys) == 1 and None not in keys, f"keys: {keys}"


# ---- answers as they are ----


@scenario("a purchase is won, and one more is the same order")
def won(client: Client) -> None:
    voucher = lab.voucher()
    first = expect(client.begin("buy", lab.URL, voucher=voucher).result(), "won")
    expect_one_order(voucher, first)
    again = expect(client.begin("buy", lab.URL, voucher=voucher).result(), "won", "ALREADY_ORDERED")
    assert (again["id"], again["body"]["status"]) == (first["id"], "unpaid"), again


@scenario("sold out is a refusal, and asked once")
def sold_out(client: Client) -> None:
    voucher = lab.voucher(stock=1)
    lab.buy(voucher, "bob")
    with through() as proxy:
        expect(client.begin("buy", proxy.url, voucher=voucher).result(), "refused", "SOLD_OUT")
        assert len(proxy.seen) == 1, proxy.seen


@scenario("a start in a moment is waited for, one in an hour is not")
def not_started(client: Client) -> None:
    with through(("POST /seckill/", [problem(409, "NOT_STARTED", Retry_After="1")])) as proxy:
        expect(client.begin("buy", proxy.url, voucher=lab.voucher()).result(), "won")
    late = lab.voucher(begin_at=lab.moment(1800))
    refused = expect(client.begin("buy", lab.URL, voucher=late).result(), "refused", "NOT_STARTED")
    assert refused["retry_after_ms"] > 1000_000, refused


@scenario("a ticket is got where one is needed, and its work done")
def tickets(client: Client) -> None:
    voucher = lab.voucher(ticket=True, work_bits=8)
    with through(("GET .*/ticket", [problem(503, "LOADING", Retry_After="0")])) as proxy:
        expect_one_order(voucher, expect(client.begin("buy", proxy.url, voucher=voucher).result(), "won"))


# ---- who asks ----


@scenario("many users share what one client has open")
def many_users(client: Client) -> None:
    count = 80
    voucher = lab.voucher(stock=count)
    with through() as proxy:
        before = client.open_files()
        calls = [client.begin("buy", proxy.url, f"user-{n}", voucher=voucher) for n in range(count)]
        ids = {expect(call.result(), "won")["id"] for call in calls}
        assert ids == {one["id"] for one in lab.orders(voucher)}, "not an order for each user"
        more = client.open_files() - before
        assert more < count, f"{more} files more are open, after {count} users"


@scenario("headers are asked for at each try")
def headers(client: Client) -> None:
    with through(("POST /seckill/", ["lose"])) as proxy:
        call = client.begin("buy", proxy.url, voucher=lab.voucher(), turns=["first", "second", "third", "fourth"])
        expect(call.result(), "won")
        turns = [one.headers.get("x-turn") for one in proxy.seen]
        assert turns[:2] == ["first", "second"], turns


@scenario("a login that fails ends no purchase, and proves nothing about a lost answer")
def failing_login(client: Client) -> None:
    with through(("POST /seckill/", [problem(401, "UNAUTHENTICATED")])) as proxy:
        late = client.begin("buy", proxy.url, voucher="1", turns=[None, "late"])
        expect(late.result(), "refused", "UNAUTHENTICATED")
        assert len(proxy.seen) == 1, proxy.seen
    voucher = lab.voucher()
    with through(("POST /seckill/", ["lose"])) as proxy:
        told = client.begin("buy", proxy.url, voucher=voucher, turns=["first", *99 * [None]], at_most_ms=2000).result()
        assert (told["outcome"], told["cause"]) == ("unknown", "no login"), told
        again = client.begin("buy", proxy.url, voucher=voucher, key=told["key"], doubtful=True)
        expect_one_order(voucher, expect(again.result(), "won"))
        expect_one_key(proxy)


@scenario("without a login nothing is sent, and the caller's error is kept", only="web")
def no_login(client: Client) -> None:
    with through() as proxy:
        for turns in ([None] * 9, []):
            told = client.begin("settlement", proxy.url, voucher="1", turns=turns, at_most_ms=1000).result(10)
            assert told.get("cause") == ("no login" if turns else "This operation was aborted"), told
            expect(told, "thrown", "ABORTED")
        assert not proxy.seen, proxy.seen


# ---- answers that are lost ----


@scenario("the browser's online event ends a pause, but no Retry-After", only="web")
def online(client: Client) -> None:
    later = problem(503, "OVERLOADED", Retry_After=str(LATER))
    with through(("kill/1$", 12 * ["drop"]), ("kill/999999999", [later])) as proxy:
        alone = lab.web_client(Path(), client.source)  # the browser's event is for all that it does
        lost, named = [alone.begin("buy", proxy.url, voucher=one) for one in ("1", "999999999")]

        def are_done() -> bool:
            alone.begin("online", proxy.url)
            return lost.done.is_set() and named.done.is_set()

        try:
            lab.until("12 tries, whose pauses are 30 s or more", are_done, within_s=15)
        finally:
            alone.close()
        expect(lost.result(), "unknown", "NO_ANSWER")
        first, second = proxy.requests("kill/9")
        assert second.at - first.at >= LATER, second.at - first.at


@scenario("an answer that is lost is asked for again, under the same key")
def lost(client: Client) -> None:
    for fault in ("lose", "drop", "cut", "broken"):
        voucher = lab.voucher()
        with through(("POST /seckill/", [fault])) as proxy:
            expect_one_order(voucher, expect(client.begin("buy", proxy.url, voucher=voucher).result(), "won"))
            expect_one_key(proxy)
            assert len(proxy.requests("POST /seckill/")) == 2, fault


@scenario("an answer that does not come has its time-out, its body, too")
def late(client: Client) -> None:
    calls = []
    with through(("POST /seckill/", ["hang"])) as hangs, through(("POST /seckill/", ["stall"])) as stalls:
        for proxy in (hangs, stalls):
            voucher = lab.voucher()
            calls.append((voucher, client.begin("buy", proxy.url, voucher=voucher)))
        for voucher, call in calls:
            expect_one_order(voucher, expect(call.result(30), "won"))


@scenario("a gateway's page is no answer, whatever its status")
def pages(client: Client) -> None:
    for status in (200, 201, 408, 429, 500, 502, 503, 504):
        voucher = lab.voucher()
        with through(("POST /seckill/", [page(status)])) as proxy:
            expect_one_order(voucher, expect(client.begin("buy", proxy.url, voucher=voucher).result(), "won"))
    for status in (400, 401, 403, 404, 409):
        with through(("POST /seckill/", [page(status)])) as proxy:
            voucher = lab.voucher()
            expect(client.begin("buy", proxy.url, voucher=voucher).result(), "unknown", "NOT_OURS")
            assert len(proxy.seen) == 1, "nobody's refusal was asked for again"


@scenario("a gateway's JSON with 200 is no answer")
def foreign(client: Client) -> None:
    busy = instead(200, '{"code":500,"status":500,"msg":"busy"}', Retry_After="0")
    voucher = lab.voucher(ticket=True)
    with through(("/seckill/", ["pass", busy, "async"]), ("GET .*/ticket", [busy]), ("POST .*/ticket", [busy]),
                 ("GET /orders/", [busy])) as proxy:
        bought = expect(client.begin("buy", proxy.url, voucher=voucher).result(), "won")
        expect_one_order(voucher, bought)
        expect_one_key(proxy)
    order = {"order": bought["id"]}
    payment = {"reference": f"p-{bought['id'][-8:]}", "amount_cents": 990, "currency": "CNY"}
    terms = lab.TERMS | {"begin_at": lab.moment(60), "end_at": lab.moment(3600)}
    calls = ("/pay", "/cancel", "/admin/vouchers$", "/settlement", "/admin/events")
    with through(*((call, [busy]) for call in calls)) as proxy:
        assert expect(client.begin("pay", proxy.url, None, payment=payment, **order).result(), "done")["id"], "no order"
        expect(client.begin("cancel", proxy.url, **order).result(), "refused", "WRONG_STATE")
        assert expect(client.begin("create", proxy.url, None, terms=terms).result(), "done")["id"], "no voucher"
        report = expect(client.begin("settlement", proxy.url, None, voucher=voucher).result(), "done")
        assert report["body"]["verdict"] == "open", report
        assert "events" in expect(client.begin("events", proxy.url, None).result(), "done")["body"]
    with through(("/events", 99 * ["drop"]), ("GET /vouchers", [busy])) as proxy:
        call = client.begin("watch", proxy.url, voucher=voucher, at_most_ms=9000)
        lab.until("a state", lambda: call.events)
        assert call.events[0]["remaining"] == 4, call.events
    strange = json.dumps(bought["body"] | {"status": "shipped"})
    with through(("/seckill/", [answer(200, strange)])) as proxy:
        expect(client.begin("buy", proxy.url, voucher=voucher).result(), "unknown", "NOT_OURS")
    with through(("/seckill/", 99 * [busy])) as proxy:
        expect(client.begin("buy", proxy.url, voucher=voucher).result(), "unknown", "NOT_OURS")


@scenario("after a lost answer only what the service knows of the order is a refusal")
def doubtful(client: Client) -> None:
    no_orders = {401: "UNAUTHENTICATED", 403: "CROSS_SITE", 404: "UNKNOWN_VOUCHER", 410: "ARCHIVED", 422: "INVALID"}
    for status, code in no_orders.items():
        with through(("POST /seckill/", ["lose", problem(status, code)])) as proxy:
            expect(client.begin("buy", proxy.url, voucher=lab.voucher()).result(), "unknown", code)
        with through(("POST /seckill/", 2 * [problem(status, code)])) as proxy:
            expect(client.begin("buy", proxy.url, voucher="1").result(), "refused", code)
            earlier = client.begin("buy", proxy.url, voucher="1", key="k", doubtful=True)
            expect(earlier.result(), "unknown", code)
    empty = lab.voucher(stock=1)
    lab.buy(empty, "bob")
    with through(("POST /seckill/", ["lose"])) as proxy:
        expect(client.begin("buy", proxy.url, voucher=empty).result(), "refused", "SOLD_OUT")


@scenario("where there is no answer in the end the outcome is unknown")
def unknown(client: Client) -> None:
    at_once = problem(503, "UNAVAILABLE", Retry_After="0")
    with through(("POST /seckill/", ["lose"] + 40 * [at_once])) as proxy:
        expect(client.begin("buy", proxy.url, voucher=lab.voucher()).result(), "unknown", "UNAVAILABLE")
        assert 5 <= len(proxy.seen) <= 20, len(proxy.seen)
    limited = problem(429, "RATE_LIMITED", Retry_After="0")
    with through(("POST /seckill/", ["lose"] + 40 * [limited])) as proxy:
        expect(client.begin("buy", proxy.url, voucher=lab.voucher()).result(), "unknown", "RATE_LIMITED")
    with through(("POST /seckill/", 40 * [limited])) as proxy:
        expect(client.begin("buy", proxy.url, voucher="1").result(), "refused", "RATE_LIMITED")


@scenario("what is unknown has its key, and is asked for again under it")
def known_key(client: Client) -> None:
    voucher = lab.voucher()
    with through(("POST /seckill/", ["lose", page(403)])) as proxy:
        told = expect(client.begin("buy", proxy.url, voucher=voucher).result(), "unknown", "NOT_OURS")
        again = client.begin("buy", proxy.url, voucher=voucher, key=told["key"], doubtful=True)
        expect_one_order(voucher, expect(again.result(), "won"))
        expect_one_key(proxy)


# ---- how long a call may take ----


@scenario("a call ends when its time is up")
def bounded(client: Client) -> None:
    second = {"at_most_ms": 1000}
    voucher = lab.voucher()
    order = lab.buy(lab.voucher(), "alice")
    with through((".*", 99 * ["hang"])) as proxy:
        client.begin("buy", proxy.url, "bob", voucher=voucher)  # without a limit he tries again after 8 s
        lab.until("bob asks", lambda: proxy.seen)
        time.sleep(1.5)
        calls = [
            client.begin("buy", proxy.url, voucher=voucher, **second),
            client.begin("cancel", proxy.url, order=order, **second),
        ]
        query = client.begin("settlement", proxy.url, None, voucher="1", **second)
        for call in calls:
            told = call.result(30)
            assert told["outcome"] == "unknown", told
        assert query.result(30)["outcome"] == "thrown", query.answer
        bobs = [one for one in proxy.seen if one.headers.get("x-user-id") == "bob"]
        assert len(bobs) == 1, "a try's own time-out was over first"
    hard = answer(200, '{"challenge":"c","work_bits":99}')
    with through(("POST /seckill/", [problem(403, "TICKET_REQUIRED")]), ("/ticket", [hard])) as proxy:
        told = client.begin("buy", proxy.url, voucher="1", **second).result(30)
        assert told["outcome"] in ("refused", "unknown"), told
    watch = client.begin("watch", lab.URL, voucher=voucher, at_most_ms=4000)
    expect(watch.result(30), "done")
    assert watch.events, "no state"


@scenario("a purchase that is accepted when its time is up is accepted, and can be followed")
def accepted_in_time(client: Client) -> None:
    voucher = lab.voucher()
    with lab.held(voucher), through(("POST /seckill/", ["async"])) as proxy:
        told = client.begin("buy", proxy.url, voucher=voucher, at_most_ms=2000).result(30)
        assert told["outcome"] == "accepted" and told["id"], told
        pending = expect(client.begin("follow", proxy.url, order=told["id"], at_most_ms=2000).result(30), "done")
        assert pending["body"].get("status") in (None, "pending"), pending
    end = expect(client.begin("follow", lab.URL, order=told["id"]).result(), "done")
    assert end["body"]["status"] == "unpaid", end
    expect_one_order(voucher, end)


# ---- when to ask again ----


@scenario("never before Retry-After")
def retry_after(client: Client) -> None:
    for status, code in ((503, "OVERLOADED"), (429, "RATE_LIMITED")):
        with through(("POST /seckill/", [problem(status, code, Retry_After=str(LATER))])) as proxy:
            expect(client.begin("buy", proxy.url, voucher=lab.voucher()).result(), "won")
            first, second = proxy.seen
            assert second.at - first.at >= LATER, second.at - first.at
    hour = problem(503, "OVERLOADED", Retry_After="3600")
    with through(("POST /seckill/", [hour])) as proxy:
        told = expect(client.begin("buy", proxy.url, voucher="1").result(), "unknown", "OVERLOADED")
        assert told["retry_after_ms"] == 3600_000, told


@scenario("a crowd that was refused together does not come back together")
def jitter(client: Client) -> None:
    count, seconds = 20, 8
    voucher = lab.voucher(stock=count)
    with through(("POST /seckill/", count * [problem(503, "OVERLOADED", Retry_After=str(seconds))])) as proxy:
        calls = [client.begin("buy", proxy.url, f"user-{n}", voucher=voucher) for n in range(count)]
        for call in calls:
            expect(call.result(), "won")
        waits = []
        for n in range(count):
            first, second = [one.at for one in proxy.seen if one.headers["x-user-id"] == f"user-{n}"]
            waits.append(second - first)
        assert max(waits) - min(waits) > seconds * 0.3, f"all after {min(waits):.2f} to {max(waits):.2f} s"


# ---- accepted orders ----


@scenario("an accepted order is followed to its end, by a long poll")
def accepted(client: Client) -> None:
    voucher = lab.voucher()
    with through(("POST /seckill/", ["async"])) as proxy:
        with lab.held(voucher):
            call = client.begin("buy", proxy.url, voucher=voucher)
            lab.until("the client follows", lambda: proxy.requests("GET /orders/"))
            time.sleep(2)
            assert not call.done.is_set(), call.answer
        expect_one_order(voucher, expect(call.result(), "won"))
        asked = proxy.requests("GET /orders/")
        assert len(asked) <= 2 and "wait=" in asked[0].path, asked


@scenario("an accepted order that is refused is a refusal, with its reason")
def accepted_in_vain(client: Client) -> None:
    order = '{"id":"1","voucher_id":"7","user_id":"alice","quantity":1,"status":"refused","reason":"SOLD_OUT"}'
    with through(("POST /seckill/", ["async"]), ("GET /orders/", [answer(200, order)])) as proxy:
        expect(client.begin("buy", proxy.url, voucher=lab.voucher()).result(), "refused", "SOLD_OUT")


@scenario("following survives lost answers, and a service that has no place to wait")
def following(client: Client) -> None:
    voucher = lab.voucher()
    full = problem(503, "OVERLOADED", Retry_After="1")
    faults = ["drop", page(502), "broken", full, problem(503, "UNAVAILABLE", Retry_After="1")]
    with through(("POST /seckill/", ["async"]), ("GET /orders/", faults)) as proxy:
        expect_one_order(voucher, expect(client.begin("buy", proxy.url, voucher=voucher).result(), "won"))
    with lab.held(voucher := lab.voucher()):
        with through(("POST /seckill/", ["async"]), (r"GET /orders/.*\?", 99 * [full])) as proxy:
            call = client.begin("buy", proxy.url, voucher=voucher)
            lab.until("it asks without waiting", lambda: len(proxy.requests(r"GET /orders/[^?]*$")) >= 2)
            assert not call.done.is_set(), call.answer


@scenario("a gateway that does not let it wait is not asked without end")
def no_wait(client: Client) -> None:
    voucher = lab.voucher()
    with through(("POST /seckill/", ["async"]), ("GET /orders/", 999 * ["no wait"])) as proxy:
        with lab.held(voucher):
            call = client.begin("buy", proxy.url, voucher=voucher)
            lab.until("the client follows", lambda: len(proxy.requests("GET /orders/")) >= 25)
        times = [one.at for one in proxy.requests("GET /orders/")]
        least = min(later - earlier for earlier, later in zip(times, times[1:]))
        assert least > 0.15, f"{least:.3f} s apart"
        expect(call.result(), "won")


@scenario("an accepted order of which nothing can be learnt is unknown")
def accepted_unknown(client: Client) -> None:
    for status, code in ((401, "UNAUTHENTICATED"), (404, "NOT_FOUND")):
        with through(("POST /seckill/", ["async"]), ("GET /orders/", [problem(status, code)])) as proxy:
            told = expect(client.begin("buy", proxy.url, voucher=lab.voucher()).result(), "unknown", code)
            assert told["id"], told


# ---- moves ----


@scenario("a cancellation whose answer is lost happens once")
def cancelled(client: Client) -> None:
    order = lab.buy(lab.voucher(), "alice")
    with through(("/cancel", ["lose", page(504), problem(503, "UNAVAILABLE", Retry_After="0")])) as proxy:
        told = expect(client.begin("cancel", proxy.url, order=order).result(), "done")
        assert told["body"]["status"] == "cancelled", told
    with through(("/cancel", ["lose", problem(401, "UNAUTHENTICATED")])) as proxy:
        expect(client.begin("cancel", proxy.url, order=order).result(), "unknown", "UNAUTHENTICATED")


@scenario("a payment whose answer is lost is one payment")
def paid(client: Client) -> None:
    voucher = lab.voucher()
    order = lab.buy(voucher, "alice")
    payment = {"reference": f"p-{order[-8:]}", "amount_cents": 990, "currency": "CNY"}
    with through(("/pay", ["lose", "broken"])) as proxy:
        told = expect(client.begin("pay", proxy.url, None, order=order, payment=payment).result(), "done")
        assert told["body"]["status"] == "paid", told
    assert len(lab.payments(voucher)) == 1, lab.payments(voucher)
    less = payment | {"amount_cents": 1}
    expect(client.begin("pay", lab.URL, None, order=order, payment=less).result(), "refused", "WRONG_AMOUNT")
    expect(client.begin("cancel", lab.URL, order=order).result(), "refused", "WRONG_STATE")


@scenario("a payment of an order that has ended is no success")
def paid_late(client: Client) -> None:
    voucher = lab.voucher()
    order = lab.buy(voucher, "alice")
    expect(client.begin("cancel", lab.URL, order=order).result(), "done")
    payment = {"reference": f"p-{order[-8:]}", "amount_cents": 990, "currency": "CNY"}
    with through(("/pay", ["lose"])) as proxy:
        told = expect(client.begin("pay", proxy.url, None, order=order, payment=payment).result(), "ended")
    assert (told["id"], told["body"]["status"]) == (order, "cancelled"), told
    assert [one["state"] for one in lab.payments(voucher)] == ["to_refund"], lab.payments(voucher)


@scenario("a payment that was given back is reported again, and not given back twice")
def paid_back(client: Client) -> None:
    for is_late in (True, False):
        order = lab.buy(lab.voucher(), "alice")
        payment = {"reference": f"p-{order[-8:]}", "amount_cents": 990, "currency": "CNY"}
        if is_late:
            lab.ask("POST", f"/orders/{order}/cancel", {"X-User-Id": "alice"})
        lab.ask("POST", f"/orders/{order}/pay", lab.ADMIN, payment)
        lab.ask("POST", f"/orders/{order}/refund", lab.ADMIN, {"reference": payment["reference"]})
        told = expect(client.begin("pay", lab.URL, None, order=order, payment=payment).result(), "done")
        assert [one["state"] for one in told["body"]["payments"]] == ["refunded"], told
        other = json.dumps(told["body"] | {"payments": []})
        with through(("/pay", [answer(200, other)])) as proxy:
            expect(client.begin("pay", proxy.url, None, order=order, payment=payment).result(), "unknown", "NOT_OURS")


@scenario("a voucher whose creation is not answered is one voucher")
def created(client: Client) -> None:
    title = f"Once {time.time_ns()}"
    terms = lab.TERMS | {"title": title, "begin_at": lab.moment(60), "end_at": lab.moment(3600)}
    with through(("POST /admin/vouchers", ["lose", "cut"])) as proxy:
        told = expect(client.begin("create", proxy.url, None, terms=terms).result(), "done")
        keys = {one.headers.get("idempotency-key") for one in proxy.seen}
        assert keys == {told["key"]}, f"{keys} instead of {told['key']}"
    assert [one["id"] for one in lab.titled(title)] == [told["id"]], lab.titled(title)


@scenario("a query is repeated, too")
def queried(client: Client) -> None:
    voucher = lab.voucher()
    with through(("/settlement", ["drop", page(502), problem(503, "OVERLOADED", Retry_After="0")])) as proxy:
        told = expect(client.begin("settlement", proxy.url, None, voucher=voucher).result(), "done")
        assert told["body"]["verdict"] == "open", told


@scenario("any other command is carried out once")
def commanded(client: Client) -> None:
    voucher = lab.voucher()
    with through(("/stock", ["lose", "cut"])) as proxy:
        path = f"/admin/vouchers/{voucher}/stock"
        told = expect(client.begin("command", proxy.url, None, path=path, json={"add": 2}).result(), "done")
    assert told["body"]["stock"] == 7, told
    read = expect(client.begin("read", lab.URL, None, path=f"/admin/vouchers?state=open&limit=1").result(), "done")
    assert len(read["body"]["vouchers"]) == 1, read


@scenario("the feed of changes is read page by page")
def feed(client: Client) -> None:
    def cancelled_order() -> str:
        order = lab.buy(lab.voucher(), "alice")
        lab.ask("POST", f"/orders/{order}/cancel", {"X-User-Id": "alice"})
        return order

    early = cancelled_order()

    def cancelled(page: dict) -> bool:
        return any(one.get("order_id") == early and one["event"] == "order.cancelled" for one in page["events"])

    lab.until("its event", lambda: cancelled(lab.ask("GET", "/admin/events?last=100", lab.ADMIN)))
    after = lab.ask("GET", "/admin/events?last=1", lab.ADMIN)["next"]
    late = cancelled_order()
    found: list[dict] = []
    with through(("/admin/events", ["drop"])) as proxy:

        def has_come() -> bool:
            nonlocal after
            page = expect(client.begin("events", proxy.url, None, after=after, wait=5).result(), "done")["body"]
            after = page["next"]
            found.extend(one for one in page["events"] if one.get("order_id") in (early, late))
            return len(found) > 1

        lab.until("the cancellation", has_come)
    due = [(late, "order.placed"), (late, "order.cancelled")]
    assert [(one["order_id"], one["event"]) for one in found] == due, found


@scenario("the types have every member that the service sends", only="web")
def typed(client: Client) -> None:
    voucher = lab.voucher()
    alice = {"X-User-Id": "alice"}
    order = lab.buy(voucher, "alice")
    payment = {"reference": f"p-{order[-8:]}", "amount_cents": 990, "currency": "CNY"}
    sent = {
        "voucher": lab.ask("GET", f"/vouchers/{voucher}", {}),
        "vouchers": lab.ask("GET", "/vouchers?limit=2", {}),
        "orders": lab.ask("GET", "/orders?limit=2", alice),
        "settlement": lab.ask("GET", f"/admin/vouchers/{voucher}/settlement", lab.ADMIN),
        "order": lab.ask("POST", f"/orders/{order}/pay", lab.ADMIN, payment),
    }
    lab.ask("POST", f"/orders/{order}/refund", lab.ADMIN, {"why": "broken"})
    sent["follow"] = lab.ask("GET", f"/orders/{order}", alice)
    sent["events"] = lab.ask("GET", "/admin/events?last=2", lab.ADMIN)
    lines = ["import type { Client, SaleEvent } from 'seckill-client';"]
    for name, body in sent.items():
        lines.append(f"const of_{name}: Awaited<ReturnType<Client['{name}']>> = {json.dumps(body)};")
    sale = lab.voucher(stock=1)
    for n, outcome in enumerate(("won", "won", "refused")):  # won before; above the limit
        told = client.begin("result", lab.URL, voucher=sale, quantity=99 if outcome == "refused" else 1).result()["body"]
        assert told["outcome"] == outcome, told
        lines.append(f"const result_{n}: Awaited<ReturnType<Client['buy']>> = {json.dumps(told)};")
    lines += [f"const event: SaleEvent = {json.dumps(lab.first_event(voucher))};", ""]
    with tempfile.TemporaryDirectory() as folder:
        lab.compile_ts(Path(folder), client.source, {"sent.ts": "\n".join(lines)})


@scenario("the page of docs/your-shop.md compiles", only="web")
def page_compiles(client: Client) -> None:
    block = re.search(r"^```ts\n(.*?)^```$", (lab.ROOT / "docs/your-shop.md").read_text(), re.M | re.S)
    assert block, "docs/your-shop.md has no block in TypeScript"
    with tempfile.TemporaryDirectory() as folder:
        lab.compile_ts(Path(folder), client.source, {"page.ts": block[1]})


# ---- the time, and a sale's events ----


@scenario("the time is the service's", only="web")
def service_time(client: Client) -> None:
    moment = "2030-01-01T00:00:00.000Z"
    voucher = f'{{"id":"1","phase":"on_sale","server_time":"{moment}"}}'
    with through(("GET /vouchers/1$", [answer(200, voucher)])) as proxy:
        told = expect(client.begin("now", proxy.url, voucher="1").result(), "done")
    since_ms = told["body"]["now"] - 1000 * datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
    assert abs(since_ms) < 60_000, f"{since_ms} ms"


@scenario("an amount has the digits of its currency")
def money(client: Client) -> None:
    table = re.search(r"const CODES = \{(.*?)\};", (lab.WEB / "money.js").read_text(), re.DOTALL)[1]
    lists = re.findall(r"(\d):\s*('[^:]*'),", table)
    digits = {code: int(count) for count, codes in lists for code in re.findall("[A-Z]{3}", codes)}
    assert len(digits) > 150 and digits["HUF"] == 2, digits
    for currency, count in digits.items():
        told = expect(client.begin("money", lab.URL, cents=1234567, currency=currency).result(), "done")
        shown = re.search(r"[\d,]+(?:\.(\d+))?$", told["body"]["text"])
        assert shown and len(shown[1] or "") == count and re.sub(r"\D", "", shown[0]) == "1234567", (currency, told)


def watch_to_the_end(client: Client, proxy: Proxy, voucher: str) -> None:
    """Each change comes, until the sale is closed."""
    call = client.begin("watch", proxy.url, voucher=voucher)
    lab.until("the state", lambda: call.events)
    lab.buy(voucher, "bob")
    lab.until("the purchase", lambda: call.events[-1]["remaining"] == 4)
    lab.operate(voucher, "pause")
    lab.until("the pause", lambda: call.events[-1]["state"] == "paused")
    lab.operate(voucher, "close")
    expect(call.result(), "done")
    assert call.events[-1]["state"] == "closed", call.events


@scenario("a sale is followed by its stream")
def stream(client: Client) -> None:
    voucher = lab.voucher()
    with through() as proxy:
        watch_to_the_end(client, proxy, voucher)
        assert len(proxy.requests("/events")) == 1, proxy.seen
        polls = len(proxy.requests(r"GET /vouchers/\d+$"))
        assert polls <= 1, f"{polls} polls beside a stream"


@scenario("several sales are followed in one stream, without unknown ones", only="web")
def several(client: Client) -> None:
    ids = [lab.voucher(), lab.voucher()]
    with through() as proxy:
        call = client.begin("watch", proxy.url, voucher=[ids[0], "999999999", "", ids[1]])
        lab.until("both from a stream", lambda: {one["voucher_id"] for one in call.events if "rate" in one} == set(ids))
        assert proxy.requests("/events")[-1].path.endswith(f"?ids={','.join(ids)}"), proxy.seen
        for voucher in ids:
            lab.operate(voucher, "close")
        expect(call.result(), "done")
    last = {one["voucher_id"]: (one["state"], one["phase"]) for one in call.events}
    unknown, closed = ("unknown", "ended"), ("closed", "ended")
    assert last == {"999999999": unknown, "": unknown, **dict.fromkeys(ids, closed)}, last


@scenario("more sales than a stream takes are followed in several", only="web")
def many_sales(client: Client) -> None:
    ids = [lab.new_voucher() for _ in range(33)]
    with through() as proxy:
        call = client.begin("watch", proxy.url, voucher=ids, at_most_ms=20_000)
        lab.until("all from streams", lambda: {one["voucher_id"] for one in call.events if "rate" in one} == set(ids))
        assert len({one.path for one in proxy.requests("/events")}) == 2, proxy.seen


@scenario("a sale's end ends a watch")
def sale_ends(client: Client) -> None:
    for rules in ([], [("/events", 99 * ["drop"])]):
        voucher = lab.voucher(end_at=lab.moment(4))
        with through(*rules) as proxy:
            call = client.begin("watch", proxy.url, voucher=voucher)
            expect(call.result(30), "done")
        last = call.events[-1]
        assert (last["state"], last["phase"]) == ("open", "ended"), call.events


@scenario("a gateway that wants a login has it of a stream, too")
def stream_login(client: Client) -> None:
    voucher = lab.voucher()
    token = lab.TOKEN
    with through(login=(token, "alice")) as proxy:
        call = client.begin("watch", proxy.url, None, voucher=voucher)
        lab.until("the state", lambda: call.events)
        lab.until("a stream's state", lambda: "rate" in call.events[-1])
        lab.operate(voucher, "close")
        expect(call.result(), "done")


@scenario("a stream that breaks is opened again, and the voucher asked for meanwhile")
def broken_stream(client: Client) -> None:
    voucher = lab.voucher()
    with through(("/events", 2 * ["one event"])) as proxy:
        watch_to_the_end(client, proxy, voucher)
        assert len(proxy.requests("/events")) >= 2, proxy.seen


@scenario("where no stream can be had the voucher is asked for")
def no_stream(client: Client) -> None:
    for fault in (problem(503, "OVERLOADED", Retry_After="1"), page(404, answer), page(200, answer), "drop"):
        voucher = lab.voucher()
        with through(("/events", 99 * [fault]), (r"GET /vouchers/\d+$", [page(502)])) as proxy:
            watch_to_the_end(client, proxy, voucher)


@scenario("who is slower than a sale hears its newest state", only="java")
def slow(client: Client) -> None:
    states = [{"voucher_id": "7", "state": "open", "phase": "on_sale", "remaining": n} for n in range(200, 0, -1)]
    states.append(states[-1] | {"phase": "ended"})
    stream = "".join(f"id: {n}\ndata: {json.dumps(one)}\n\n" for n, one in enumerate(states))
    with through(("/events", [answer(200, stream, Content_Type="text/event-stream")])) as proxy:
        call = client.begin("watch", proxy.url, voucher="7", slow_ms=300, at_most_ms=20_000)
        expect(call.result(), "done")
    assert call.events[-1]["phase"] == "ended", call.events[-1]
    assert len(call.events) < 20, f"{len(call.events)} of {len(states)} states"


@scenario("while Redis is away a watch tells no units")
def away(client: Client) -> None:
    ids = [lab.voucher(), lab.voucher()]
    one = json.dumps(lab.ask("GET", f"/vouchers/{ids[0]}", {}) | {"can_sell": False})
    some = json.dumps(lab.ask("GET", "/vouchers", {}) | {"can_sell": False})
    rules = (r"GET /vouchers/\d+$", [answer(200, one)]), ("GET /vouchers$", [answer(200, some)])
    for watched in (ids[0], ids) if client.name == "web" else (ids[0],):
        with through(("/events", 99 * ["drop"]), *rules) as proxy:
            call = client.begin("watch", proxy.url, voucher=watched, at_most_ms=9000)
            lab.until("the units again", lambda: call.events and call.events[-1]["remaining"] == 5)
        assert call.events[0]["remaining"] is None, call.events


@scenario("who follows a sale or an order hears of each try that fails", only="web")
def troubles(client: Client) -> None:
    order = lab.buy(lab.voucher(), "alice")
    for what, details in (("watch", {"voucher": lab.voucher()}), ("follow", {"order": order})):
        call = client.begin(what, lab.URL, turns=9 * [None], at_most_ms=9000, **details)
        lab.until("a login that fails", lambda: call.troubles)
        assert call.troubles[0] == {"code": "NO_LOGIN", "cause": "no login"}, call.troubles
        asked = [problem(503, "UNAVAILABLE"), page(502), *99 * ["hang"]]
        with through(("/events", 99 * ["drop"]), (r"GET /(vouchers/\d+$|orders/)", asked)) as proxy:
            call = client.begin(what, proxy.url, at_most_ms=9000, **details)
            lab.until("both troubles", lambda: len(call.troubles) == 2)
        assert [one["code"] for one in call.troubles] == ["UNAVAILABLE", "NOT_OURS"], call.troubles
        with through((".*", 99 * ["hang"])) as proxy:
            call = client.begin(what, proxy.url, at_most_ms=1000, **details)
            expect(call.result(30), "done")
            assert not call.troubles, "its own end is no trouble"
    call = client.begin("watch", lab.URL, voucher=lab.voucher(), at_most_ms=4000)
    expect(call.result(30), "done")
    assert call.events and not call.troubles, call.troubles


@scenario("a sale that there is not ends a watch")
def no_sale(client: Client) -> None:
    expect(client.begin("watch", lab.URL, voucher="999999999").result(), "thrown", "UNKNOWN_VOUCHER")
