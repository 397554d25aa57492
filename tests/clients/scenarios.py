"""What a client must do, whatever happens between it and the service. Each scenario has a voucher, orders and a proxy
of its own; both clients run the same ones."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import Callable, Iterator

import lab
from lab import Client
from proxy import PAGE, Proxy, answer, instead, problem

HTML = "text/html"
LATER = 2  # seconds of Retry-After
scenarios: dict[str, Callable[[Client], None]] = {}


def scenario(name: str):
    def add(run: Callable[[Client], None]) -> Callable[[Client], None]:
        scenarios[name] = run
        return run

    return add


@contextmanager
def through(*rules: tuple[str, list]) -> Iterator[Proxy]:
    proxy = Proxy(lab.URL, list(rules))
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
    assert (again["id"], again["status"]) == (first["id"], "unpaid"), again


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


# ---- answers that are lost ----


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
    count, seconds = 20, 4
    voucher = lab.voucher(stock=count)
    with through(("POST /seckill/", count * [problem(503, "OVERLOADED", Retry_After=str(seconds))])) as proxy:
        calls = [client.begin("buy", proxy.url, f"user-{n}", voucher=voucher) for n in range(count)]
        for call in calls:
            expect(call.result(), "won")
        waits = []
        for n in range(count):
            first, second = [one.at for one in proxy.seen if one.headers["x-user-id"] == f"user-{n}"]
            waits.append(second - first)
        assert max(waits) - min(waits) > seconds / 4, f"all after {min(waits):.2f} to {max(waits):.2f} s"


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
        assert told["status"] == "cancelled", told
    with through(("/cancel", ["lose", problem(401, "UNAUTHENTICATED")])) as proxy:
        expect(client.begin("cancel", proxy.url, order=order).result(), "unknown", "UNAUTHENTICATED")


@scenario("a payment whose answer is lost is one payment")
def paid(client: Client) -> None:
    voucher = lab.voucher()
    order = lab.buy(voucher, "alice")
    payment = {"reference": f"p-{order[-8:]}", "amount_cents": 990, "currency": "CNY"}
    with through(("/pay", ["lose", "broken"])) as proxy:
        told = expect(client.begin("pay", proxy.url, None, order=order, payment=payment).result(), "done")
        assert told["status"] == "paid", told
    assert len(lab.payments(voucher)) == 1, lab.payments(voucher)
    less = payment | {"amount_cents": 1}
    expect(client.begin("pay", lab.URL, None, order=order, payment=less).result(), "refused", "WRONG_AMOUNT")
    expect(client.begin("cancel", lab.URL, order=order).result(), "refused", "WRONG_STATE")


@scenario("a voucher whose creation is not answered is one voucher")
def created(client: Client) -> None:
    title = f"Once {time.time_ns()}"
    terms = lab.TERMS | {"title": title, "begin_at": lab.moment(60), "end_at": lab.moment(3600)}
    with through(("POST /admin/vouchers", ["lose", "cut"])) as proxy:
        told = expect(client.begin("create", proxy.url, None, terms=terms).result(), "done")
    assert [one["id"] for one in lab.titled(title)] == [told["id"]], lab.titled(title)


@scenario("a query is repeated, too")
def queried(client: Client) -> None:
    voucher = lab.voucher()
    with through(("/settlement", ["drop", page(502), problem(503, "OVERLOADED", Retry_After="0")])) as proxy:
        told = expect(client.begin("settlement", proxy.url, None, voucher=voucher).result(), "done")
        assert told["verdict"] == "open", told


# ---- a sale's events ----


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


@scenario("a sale that there is not ends a watch")
def no_sale(client: Client) -> None:
    expect(client.begin("watch", lab.URL, voucher="999999999").result(), "thrown", "UNKNOWN_VOUCHER")
