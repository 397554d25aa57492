"""Many vouchers, many reactors, and a second sale on the same stores."""

from __future__ import annotations

import signal
import time

from driver import Run
from fault import Fault
from rows_tools import accepted, crowd, insert_vouchers, key, kill, open_voucher, read_order, within
from stack import wait_for

MANY = 999  # plus the one of each row


def all_open(run: Run, vouchers: list[str]) -> bool:
    states = run.redis.calls(["HGET", key(voucher, "voucher"), "state"] for voucher in vouchers)
    return all(state == "open" for state in states)


def many(then):
    """A crowd buys each of many vouchers; in the middle of it `then` runs."""

    def inject(run: Run) -> None:
        vouchers = insert_vouchers(run, MANY, run.fault.units)
        run.vouchers += vouchers
        wait_for("all on sale", lambda: all_open(run, vouchers), 20, 0.3)
        buyers = crowd(run, vouchers, 3.0, 500, 400)
        time.sleep(1.0)
        then(run)
        within(run, "all on sale again", lambda: all_open(run, vouchers), 15)
        buyers.join()

    return inject


def nothing(_run: Run) -> None:
    """The load itself is the fault."""


def flushall(run: Run) -> None:
    run.redis.call("FLUSHALL")


def killed(run: Run) -> None:
    kill(run)
    time.sleep(0.3)
    run.first.run()


def terminated(run: Run) -> None:
    code = run.first.end(signal.SIGTERM, 10)
    if code != 0:
        run.leaks.append(f"SIGTERM: ended with {code}")


def sold_out(run: Run, voucher: str) -> bool:
    return run.redis.call("HGET", key(voucher, "voucher"), "stock") == "0"


def second_sale(run: Run) -> None:
    """The same people buy all units, and later all units of the next sale; nothing is cleared in between."""
    for n in range(2):
        voucher = open_voucher(run, run.fault.units)
        buyers = crowd(run, [voucher], 1.8, 500, 700)
        if n == 1:
            time.sleep(0.6)
            killed(run)
        buyers.join()
        within(run, f"sale {n + 1} sold out", lambda: sold_out(run, voucher), 5)


def older_than_1000_others(run: Run) -> None:
    """The newest thousand vouchers are checked, and the accepted order is of none of them. All are loaded first;
    another row covers loading. The instance has no pending writes, so it can query PostgreSQL."""
    process = run.redis.call("HGET", run.key("voucher"), "run")
    holder = run.hold_orders(5)  # longer than loading takes on a slow disk
    order = accepted(run, run.vouchers[0], "first-of-all")
    others = insert_vouchers(run, 1300, 1, epoch=1)
    loaded = ["state", "open", "epoch", 1, "last", "epoch-1", "stock", 1, "run", process]
    loaded += ["begin_ms", 0, "end_ms", 2**42, "offer", 1]
    run.redis.calls(["HSET", key(voucher, "voucher"), *loaded] for voucher in others)
    read_order(run, order, 1)
    run.postgres.sql(f"delete from seckill_voucher where id in ({','.join(others)})")
    run.listed_more = len(others)
    holder.wait()
    run.redis.calls(["DEL", key(voucher, "voucher")] for voucher in others)


def rebuilt_at_once(run: Run) -> None:
    """Many vouchers are missing in Redis, and each statement takes a while: less than the time-out of one statement,
    but more for one of each voucher. In the right order all are done in six seconds."""
    run.stack.pg_proxy.delay_ms = 5  # in each direction
    vouchers = insert_vouchers(run, IMPATIENT_MANY, 10)
    run.vouchers += vouchers
    states = lambda: run.redis.calls(["HGET", key(voucher, "voucher"), "state"] for voucher in vouchers)
    within(run, f"{IMPATIENT_MANY} vouchers rebuilt", lambda: states() == ["open"] * IMPATIENT_MANY, 15)
    run.stack.pg_proxy.delay_ms = 0
    wait_for("rebuilt in the end", lambda: states() == ["open"] * IMPATIENT_MANY, 30)


TWO_REACTORS = {"SECKILL_REACTORS": "2"}
IMPATIENT_MANY = 150
IMPATIENT = {"SECKILL_PG_TIMEOUT_MS": "700"}


def thousand(name: str, title: str, then, **more) -> Fault:
    return Fault(name, f"1,000 vouchers, {title}", many(then), **{"rate": 0, "units": 50, "rebuilds": 10} | more)


def two(name: str, title: str, then, **more) -> Fault:
    return Fault(name, f"two reactors each, {title}", then, env=TWO_REACTORS, seconds=2.5, **more)


ROWS = [
    thousand("30a", "a crowd over all of them", nothing, full=True),
    thousand("30b", "an instance killed", killed, unknown=0.5),
    thousand("30c", "FLUSHALL", flushall, rebuilds=4 * MANY, refused_202=60, unknown=0.9, full=True),
    Fault(
        "30d",
        "a pending order of a voucher older than 1,000",
        older_than_1000_others,
        rate=0,
    ),
    Fault(
        "30e",
        "150 vouchers rebuilt at once, by the impatient",
        rebuilt_at_once,
        proxied=True,
        rate=0,
        env=IMPATIENT,
        rebuilds=3 * MANY,
        unknown=0.9,
        full=True,
    ),
    two("36a", "an instance killed", killed, unknown=0.3, full=True),
    two("36b", "FLUSHALL", flushall, rebuilds=8, refused_202=50),
    two("36c", "SIGTERM", terminated, unknown=0.1),
    Fault("40", "a second sale on the same stores", second_sale, rate=0, unknown=0.3),
]
