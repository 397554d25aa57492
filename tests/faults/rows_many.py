"""Many vouchers, many reactors, and a second sale on the same stores."""

from __future__ import annotations

import signal
import time

from driver import Fault, Run
from rows_tools import crowd, insert_vouchers, key, kill, open_voucher, within
from stack import wait_for

MANY = 999  # and the one that each row has


def all_open(run: Run, vouchers: list[str]) -> bool:
    states = run.redis.calls(["HGET", key(voucher, "voucher"), "state"] for voucher in vouchers)
    return all(state == "open" for state in states)


def many(then):
    """A crowd buys each of many vouchers; in the middle of it, what `then` does."""

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
    """The same people buy all there is, and later all there is of the next; nothing is cleared in between."""
    for n in range(2):
        voucher = open_voucher(run, run.fault.units)
        buyers = crowd(run, [voucher], 1.8, 500, 700)
        if n == 1:
            time.sleep(0.6)
            killed(run)
        buyers.join()
        within(run, f"sale {n + 1} sold out", lambda: sold_out(run, voucher), 5)


TWO_REACTORS = {"SECKILL_REACTORS": "2"}

def thousand(name: str, title: str, then, **more) -> Fault:
    return Fault(name, f"1,000 vouchers, {title}", many(then), **{"rate": 0, "units": 50, "rebuilds": 10} | more)


def two(name: str, title: str, then, **more) -> Fault:
    return Fault(name, f"two reactors each, {title}", then, env=TWO_REACTORS, seconds=2.5, **more)


ROWS = [
    thousand("30a", "a crowd over all of them", nothing, full=True),
    thousand("30b", "an instance killed", killed, unknown=0.5),
    thousand("30c", "FLUSHALL", flushall, rebuilds=4 * MANY, refused_202=60, unknown=0.9, full=True),
    two("36a", "an instance killed", killed, unknown=0.3, full=True),
    two("36b", "FLUSHALL", flushall, rebuilds=8, refused_202=50),
    two("36c", "SIGTERM", terminated, unknown=0.1),
    Fault("40", "a second sale on the same stores", second_sale, rate=0, unknown=0.3),
]
