"""One instance alone is without PostgreSQL, or in a crash loop, or most instances are dead: the background work goes on
at those that can do it: 66, 67."""

from __future__ import annotations

import signal
import time

from driver import Run
from fault import Fault
from proxy import Proxy
from rows_life import STEADY, status_of
from rows_tools import accepted, buy, kill, restart, within
from stack import wait_for

ALONE_S = 30.0
DEFAULTS = {"SECKILL_LOCK_TTL_MS": "3000"}  # the times are promised for it
SLACK_S = 1.0  # for a busy machine
LATE_S = {"refused": 2.0 + SLACK_S, "silent": 4.0 + SLACK_S, "dead": 4.0 + SLACK_S}
NOT_READY_S = {"refused": 4.0 + SLACK_S, "silent": 6.0 + SLACK_S}  # a call must have been sent, and hung for a second
STALL_S = 3.0  # a disk that stalls for a second ends a link to Redis, and that instance is not ready for a moment
ENDS_S = 4.5 + SLACK_S
STARTS_S = 1.5  # between a start and the next crash: long enough for a session
LOOP_S = 18.0
ABLE = "seckill:{shared}:session:able:0"
VOUCHERS = 12  # so that some are the blind one's, if chance may assign any to it


def proxied(run: Run, instance: int = 0) -> Proxy:
    """The instance reaches the first PostgreSQL through a proxy of its own."""
    proxy = run.stack.another_proxy(run.stack.shards[0].port)
    restart(run.stack.instances[instance], run.stack.database("seckill", proxy.port))
    return proxy


def all_are_able(run: Run) -> None:
    wait_for("all are able", lambda: run.redis.call("ZCARD", ABLE) == len(run.stack.instances))


def cut(proxy: Proxy, how: str) -> None:
    if how == "silent":
        proxy.swallow["up"] = proxy.swallow["down"] = True
    else:
        proxy.upstream = 0
        proxy.drop_all()


def mend(proxy: Proxy, upstream: int) -> None:
    proxy.swallow["up"] = proxy.swallow["down"] = False
    proxy.upstream = upstream


def alone(how: str):
    """It is not ready as long as another instance has PostgreSQL. Its own orders end once it is back."""

    def inject(run: Run) -> None:
        proxy, second = proxied(run), run.stack.instances[1]
        all_are_able(run)
        cut(proxy, how)
        until = time.monotonic() + ALONE_S
        own = [accepted(run, voucher, f"own-{voucher}") for voucher in run.vouchers]
        within(run, "not ready", lambda: run.first.ask("GET", "/readyz")[0] == 503, NOT_READY_S[how])
        while time.monotonic() < until:
            time.sleep(0.5)
            within(run, "the other instance is ready", second.ready, STALL_S)
        mend(proxy, run.stack.shards[0].port)
        run.healed()
        within(run, "ready again", run.first.ready, 8.0)
        ended = lambda: all(one.status == 409 or status_of(run, one.order) for one in own)
        within(run, "its own orders end", ended, 8.0)

    return inject


def both(run: Run) -> None:
    """Nobody has PostgreSQL: both stay ready, and sell for 202."""
    proxies = [proxied(run, number) for number in range(2)]
    all_are_able(run)
    for proxy in proxies:
        cut(proxy, "refused")
    until, n = time.monotonic() + 6.0, 0
    while time.monotonic() < until:
        time.sleep(0.2)
        n += 1
        for number, instance in enumerate(run.stack.instances):
            if instance.ask("GET", "/readyz")[0] != 200:
                run.seen_meanwhile.append(f"{instance.name} is not ready")
            answer = buy(run, run.vouchers[0], f"both-{n}-{number}", number, later=True)
            if answer.status not in (202, 409):
                run.seen_meanwhile.append(f"{instance.name}: {answer.status} {answer.code}")
    for proxy in proxies:
        mend(proxy, run.stack.shards[0].port)


def never(run: Run) -> None:
    """It has a session, since it reaches Redis, and knows no voucher."""
    proxy = run.stack.another_proxy(0)
    run.first.end(signal.SIGTERM)
    run.first.run(run.stack.database("seckill", proxy.port))
    wait_for("its session", lambda: 'msg="session taken"' in run.first.text().split("drained")[-1])
    time.sleep(LOOP_S)
    mend(proxy, run.stack.shards[0].port)


def crash_loop(run: Run) -> None:
    until = time.monotonic() + LOOP_S
    while time.monotonic() < until:
        kill(run)
        run.first.run()
        time.sleep(STARTS_S)
    kill(run)


def most_die(run: Run) -> None:
    all_are_able(run)
    for number in range(len(run.stack.instances) - 1):
        kill(run, number)
    time.sleep(8.0)


def dies_beside_a_blind_one(run: Run) -> None:
    """The first has lost PostgreSQL, and so has the last, which has accepted orders and dies."""
    proxies = [proxied(run, 0), proxied(run, 2)]
    all_are_able(run)
    for proxy in proxies:
        cut(proxy, "refused")
    orders = [accepted(run, voucher, f"dead-{voucher}", 2) for voucher in run.vouchers]
    kill(run, 2)
    ended = lambda: all(one.status == 409 or status_of(run, one.order) for one in orders)
    within(run, "the orders of the dead one end", ended, ENDS_S)
    mend(proxies[0], run.stack.shards[0].port)


MANY = {"habits": STEADY, "vouchers": VOUCHERS, "units": 2000, "users": 3000, "rate": 90, "env": DEFAULTS}

ROWS = [
    Fault(
        "66a", "one instance alone loses PostgreSQL for 30 s: refused", alone("refused"),
        seconds=ALONE_S + 4, late_s=LATE_S["refused"], unknown=0.3, **MANY,
    ),
    Fault(
        "66b", "the same: silent", alone("silent"),
        seconds=ALONE_S + 4, late_s=LATE_S["silent"], unknown=0.3, **MANY,
    ),
    Fault(
        "66c", "one instance alone never has PostgreSQL", never,
        seconds=LOOP_S + 4, late_s=LATE_S["refused"], unknown=0.6, **MANY,
    ),
    Fault("66d", "no instance has PostgreSQL: all stay ready", both, seconds=10.0, unknown=0.3, **MANY),
    Fault(
        "67a", "an instance in a crash loop", crash_loop,  # at its first crash it owns vouchers, and may hold locks
        seconds=LOOP_S + 4, late_s=LATE_S["dead"], unknown=0.7, **MANY,
    ),
    Fault(
        "67d", "all instances in a crash loop: none is ever able", crash_loop,
        instances=1, seconds=LOOP_S + 4, late_s=LATE_S["dead"], unknown=0.9, **MANY | {"env": {}},
    ),
    Fault(
        "67b", "three of four instances die at once", most_die,
        instances=4, seconds=12.0, late_s=LATE_S["dead"], unknown=0.8, **MANY,
    ),
    Fault(
        "67c", "an instance dies, and another has lost PostgreSQL", dies_beside_a_blind_one,
        instances=3, seconds=12.0, unknown=0.5, **MANY,
    ),
]
