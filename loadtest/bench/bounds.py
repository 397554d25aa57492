"""Bounds: how much of their rate buyers may lose, or how much longer they may wait, under some other load.

Each bound runs the same buyers twice on the same fresh stores: once with the trouble, and once without it or with a
harmless load. The order of the two changes from round to round. An order counts when its row is committed. at_rest.py
has the cost of the service at rest.
"""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Callable, Iterator, TypeVar

from bench import listeners, parking
from lib import common
from lib.common import Failure, Load, Postgres, Voucher
from lib.servers import Server, free_port, start_server
from lib.service import Service, Side

BUYERS = 64
CLIENTS = 64  # of made_up_post and made_up_get
POLLERS = 256
CURRENT_VOUCHERS = 1000
PARKED_CONNECTIONS = 10_000
PARKED_MAX_CONNECTIONS = 12_288  # of the server
PARKED_LONG_SHARE = 90  # percent: by default half of them may wait
LONG_POLLS = 5_000
STREAMS = 5_000
LEAD_S = 0.5  # the others start before the buyers
LOCK_S = 10  # to get a row lock
LOCKED_LEAST_S = 8  # longer than any statement's time-out: buyers stuck behind the lock get an answer
LOCKED_MORE_MS = 100  # how much longer a buyer of another voucher may wait
TRICKLE_S = 0.05  # between two buyers of the locked voucher
TRICKLE_END_S = 15

Seen = TypeVar("Seen")  # the result of a phase


@dataclass
class Outcome:
    """One round. If anything is wrong, the bound is missed whatever the figure."""

    figure: float
    told: str
    wrong: str = ""
    details: dict[str, object] = field(default_factory=dict)


@dataclass
class Bound:
    """`measure` takes the length of a phase and whether the second phase goes first. It returns None where it cannot
    be measured."""

    name: str
    what: str
    unit: str  # of the figure
    least: float | None
    most: float | None
    measure: Callable[[Side, int, bool], Outcome | None]
    once: bool = False  # one round is enough
    outcomes: list[Outcome] = field(default_factory=list)
    failure: str = ""  # ended a round, and with it the bound: it is missed

    @property
    def limit(self) -> str:
        return f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"

    def holds(self, figure: float) -> bool:
        return (self.least is None or figure >= self.least) and (self.most is None or figure <= self.most)


# ---- clients who ask for what does not exist ----


def made_up_post(side: Side, seconds: int, flip: bool) -> Outcome:
    return made_up(side, seconds, flip, method="POST", path="/seckill/")


def made_up_get(side: Side, seconds: int, flip: bool) -> Outcome:
    return made_up(side, seconds, flip, method="GET", path="/vouchers/")


def made_up(side: Side, seconds: int, flip: bool, method: str, path: str) -> Outcome:
    with side.serving() as service:
        sold_out = service.sold_out_voucher()
        made_up, harmless = in_turn(
            flip,
            lambda: buyers_beside(service, seconds, CLIENTS, method=method, path=path + "{random}"),
            lambda: buyers_beside(service, seconds, CLIENTS, method=method, path=path + sold_out.id),
        )
    return kept(made_up, "made-up ids", harmless, "one sold-out voucher")


# ---- clients who ask for their orders ----


def order_pollers(side: Side, seconds: int, flip: bool) -> Outcome:
    with side.serving() as service:
        service.vouchers(CURRENT_VOUCHERS)
        everybody_buys(service, POLLERS)
        pollers, harmless = in_turn(
            flip,
            lambda: buyers_beside(service, seconds, POLLERS, method="GET", path="/orders", users=POLLERS),
            lambda: buyers_beside(service, seconds, POLLERS, method="GET", path="/healthz", users=POLLERS),
        )
    return kept(pollers, "GET /orders", harmless, "GET /healthz")


def everybody_buys(service: Service, users: int, seconds: int = 1) -> Voucher:
    """A crowd of `users`: each of them has an order to query."""
    voucher = service.voucher()
    common.run_wrk([service.url], BUYERS, 1, seconds, path=f"/seckill/{voucher.id}", users=users)
    service.stores.wait_until_settled()
    orders, _ = service.stores.orders(voucher.id)
    if orders != users:
        raise Failure(f"{orders} of {users} users have an order")
    return voucher


# ---- connections that wait ----


def parked(side: Side, seconds: int, flip: bool) -> Outcome:
    """Measured on the ceiling, because no call of the service parks: the same server on the same kind of loop."""
    with parking_server(side) as server:

        def crowd() -> Load:
            return common.run_wrk([server.url], BUYERS, 1, seconds, path="/seckill/1")

        def crowd_beside_parked() -> Load:
            with parking.parked(server.url, PARKED_CONNECTIONS):
                return crowd()

        beside, alone = in_turn(flip, crowd_beside_parked, crowd)
    told = f"{beside.rate:,.0f} answers/s beside parked connections, {alone.rate:,.0f} beside none"
    details = {"rps": beside.rate, "harmless_rps": alone.rate}
    return Outcome(beside.rate / alone.rate, told, what_parking_broke(beside), details)


@contextmanager
def parking_server(side: Side) -> Iterator[Server]:
    port = free_port()
    command = [str(side.stores.build.binary("seckill-ceiling")), "--listen", f"127.0.0.1:{port}"]
    command += ["--max-connections", str(PARKED_MAX_CONNECTIONS)]
    server = start_server(command, port, "/", side.folder / "parking.log")
    try:
        yield server
    finally:
        server.stop()


def what_parking_broke(beside: Load) -> str:
    broken = beside.not_ok + sum(beside.broken.values())
    return f"{broken:,} of {beside.requests:,} requests beside parked connections failed" if broken else ""


# ---- clients who wait for a change ----


def live(side: Side, seconds: int, flip: bool) -> Outcome:
    """Long polls of orders that do not change, and streams of the voucher that the buyers buy. Compared with as many
    connections to another server, which only holds the polls and sends the streams as many texts: the cost of
    sending itself."""
    limits = {"SECKILL_MAX_CONNECTIONS": PARKED_MAX_CONNECTIONS, "SECKILL_LONG_SHARE": PARKED_LONG_SHARE}
    with side.serving(**limits) as service, parking_server(side) as sender:
        polls = [(f"/orders/{order}?wait=60", user) for order, user in orders_of_a_crowd(service)]
        parks = [("/park", "")] * LONG_POLLS

        def beside_live() -> Listened:
            voucher = service.voucher()
            streams = [(f"/vouchers/{voucher.id}/events!", "")] * STREAMS
            return buyers_beside_listeners(service, voucher, seconds, service.url, polls + streams)

        def beside_sending() -> Listened:
            streams = [("/stream!", "")] * STREAMS
            return buyers_beside_listeners(service, service.voucher(), seconds, sender.url, parks + streams)

        live, sending = in_turn(flip, beside_live, beside_sending)
    if sending.committed_rps == 0:
        raise Failure("buyers get nothing beside the sending itself")
    told = (
        f"{live.committed_rps:,.0f} orders/s beside long-polls and streams ({live.heard.events_per_s:,.0f} events/s, "
        f"{live.heard.cpu_share:.0%} of a CPU to read them), {sending.committed_rps:,.0f} beside the sending itself "
        f"({sending.heard.events_per_s:,.0f}/s, {sending.heard.cpu_share:.0%})"
    )
    wrong = "" if live.heard.ended == 0 else f"{live.heard.ended:,} listeners were answered or cut off"
    details = {"live": live.details, "sending": sending.details}
    return Outcome(live.committed_rps / sending.committed_rps, told, wrong, details)


@dataclass
class Listened:
    committed_rps: float
    heard: listeners.Heard

    @property
    def details(self) -> dict[str, object]:
        return {"committed_rps": self.committed_rps} | self.heard.__dict__


def orders_of_a_crowd(service: Service) -> list[list[str]]:
    voucher = everybody_buys(service, LONG_POLLS, LONG_POLLS // 500)
    rows = service.stores.postgres.rows(f"SELECT id, user_id FROM voucher_order WHERE voucher_id = {voucher.id}")
    return rows[:LONG_POLLS]


def buyers_beside_listeners(
    service: Service, voucher: Voucher, seconds: int, url: str, lines: list[tuple[str, str]]
) -> Listened:
    with listeners.listening(url, lines) as others:
        time.sleep(LEAD_S)
        load = common.run_wrk([service.url], BUYERS, 1, seconds, path=f"/seckill/{voucher.id}")
        heard = others.stop()
    service.stores.wait_until_settled()
    return Listened(committed_rps(service, voucher, load), heard)


# ---- buyers, and what becomes of their rate ----


@dataclass
class Phase:
    committed_rps: float
    others_rps: float  # of the clients other than the buyers
    load: Load


def in_turn(flip: bool, first: Callable[[], Seen], second: Callable[[], Seen]) -> tuple[Seen, Seen]:
    """Runs both, the second one first if flip; returns them as (first, second)."""
    if flip:
        later = second()
        return first(), later
    return first(), second()


def buyers_beside(service: Service, seconds: int, clients: int, **settings: object) -> Phase:
    """Buyers of a new voucher, while other clients do what the settings describe."""
    voucher = service.voucher()
    with ExitStack() as stack:
        others = None
        if clients > 0:
            longer = seconds + common.WRK_STOP_S
            others = common.Wrk([service.url], clients, 1, longer, seed=secrets.randbelow(1 << 30), **settings)
            stack.callback(others.kill)
            time.sleep(LEAD_S)
        load = common.run_wrk([service.url], BUYERS, 1, seconds, path=f"/seckill/{voucher.id}")
        others_rps = others.stop().rate if others else 0
    service.stores.wait_until_settled()
    return Phase(committed_rps(service, voucher, load), others_rps, load)


def committed_rps(service: Service, voucher: Voucher, load: Load) -> float:
    orders, _ = service.stores.orders(voucher.id)
    told = load.requests - load.not_ok
    if orders < told:
        raise Failure(f"{told} buyers of voucher {voucher.id} won, {orders} rows in PostgreSQL")
    end = load.started_at + load.seconds
    return service.stores.orders_between(voucher.id, load.started_at, end) / load.seconds


def kept(trouble: Phase, what: str, harmless: Phase, instead: str) -> Outcome:
    if harmless.committed_rps == 0:
        raise Failure(f"buyers get nothing beside {instead}")
    told = (
        f"{trouble.committed_rps:,.0f} orders/s beside {what} ({trouble.others_rps:,.0f}/s), "
        f"{harmless.committed_rps:,.0f} beside {instead} ({harmless.others_rps:,.0f}/s)"
    )
    details = {
        "committed_rps": trouble.committed_rps,
        "others_rps": trouble.others_rps,
        "harmless_committed_rps": harmless.committed_rps,
        "harmless_others_rps": harmless.others_rps,
    }
    return Outcome(trouble.committed_rps / harmless.committed_rps, told, details=details)


# ---- one voucher's rows are locked ----


def locked_row(side: Side, seconds: int, flip: bool) -> Outcome:
    seconds = max(seconds, LOCKED_LEAST_S)
    with side.serving() as service:
        locked_voucher, other, another = (service.voucher() for _ in range(3))

        def buyers_beside_lock() -> Load:
            with locked_rows(service.stores.postgres, locked_voucher), trickle(service, locked_voucher):
                load = counted_buyers(service, other, seconds)
            service.stores.wait_until_settled()
            return load

        locked, free = in_turn(flip, buyers_beside_lock, lambda: counted_buyers(service, another, seconds))
    told = (
        f"p99 of the other voucher's buyers {locked.p99_ms:.1f} ms at {locked.rate:,.0f} answers/s, "
        f"without a lock {free.p99_ms:.1f} ms at {free.rate:,.0f}"
    )
    details = {"p99_ms": locked.p99_ms, "free_p99_ms": free.p99_ms, "rate": locked.rate, "free_rate": free.rate}
    details |= {"answers": locked.answers, "others": locked.others, "broken": locked.broken}
    return Outcome(locked.p99_ms - free.p99_ms, told, what_the_lock_broke(locked, free), details)


def what_the_lock_broke(locked: Load, free: Load) -> str:
    """wrk's p99 covers only the requests that were answered."""
    missing = locked.requests - locked.answers["placed"] + locked.broken["timeout"]
    if missing > 0:
        return f"{missing:,} of {locked.requests:,} buyers of the other voucher did not hear 201"
    longest_ms = free.p99_ms + LOCKED_MORE_MS
    if locked.rate < BUYERS / longest_ms * 1000 / 2:
        return f"at most half the rate that waits of {longest_ms:.0f} ms would give: some buyers waited to the end"
    return ""


def counted_buyers(service: Service, voucher: Voucher, seconds: int) -> Load:
    return common.run_wrk([service.url], BUYERS, 1, seconds, path=f"/seckill/{voucher.id}", count=1)


@contextmanager
def locked_rows(postgres: Postgres, voucher: Voucher) -> Iterator[None]:
    """Another transaction locks all rows that hold the voucher's units."""
    script = f"""BEGIN;
    SELECT format('SELECT %L FROM %I WHERE %I = {voucher.id} FOR UPDATE',
                  'locked ' || table_name, table_name, column_name)
      FROM information_schema.columns
     WHERE table_schema = 'public' AND (table_name, column_name) IN
           (('seckill_voucher', 'id'), ('voucher_stock', 'voucher_id'))
     ORDER BY table_name \\gexec
    """
    with common.child_that_says(common.PSQL, "locked seckill_voucher", LOCK_S, script, postgres.env):
        yield


@contextmanager
def trickle(service: Service, voucher: Voucher) -> Iterator[None]:
    """One buyer at once and then one every TRICKLE_S, who does not wait for the commit."""
    done = threading.Event()

    def buy(number: int) -> None:
        try:
            service.buy(voucher, f"trickle-{number}-{secrets.token_hex(4)}", Prefer="respond-async")
        except OSError:
            pass  # no answer in time: the next buyer tries

    def keep_buying() -> None:
        for number in itertools.count(1):
            if done.wait(TRICKLE_S):
                break
            buy(number)

    buy(0)
    thread = threading.Thread(target=keep_buying, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(TRICKLE_END_S)
