"""Many vouchers, many reactors, and a second sale on the same stores."""

from __future__ import annotations

import signal
import time

from driver import Fault, Run
from rows_tools import crowd, insert_vouchers, is_open, kill, open_voucher, within
from stack import wait_for

MANY = 999  # and the one that each row has


def all_open(run: Run, vouchers: list[str]) -> bool:
    return all(state == "open" for state in run.redis.calls(["HGET", f"seckill:{{{v}}}:voucher", "state"] for v in vouchers))


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
    return run.redis.call("HGET", f"seckill:{{{voucher}}}:voucher", "stock") == "0"


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

ROWS = [
    Fault("30a", "1,000 vouchers, a crowd over all of them", many(nothing), rate=0, units=50, rebuilds=10, full=True),
    Fault("30b", "1,000 vouchers, an instance killed", many(killed), rate=0, units=50, rebuilds=10, unknown=0.5),
    Fault("30c", "1,000 vouchers, FLUSHALL", many(flushall), rate=0, units=50, rebuilds=4 * MANY, refused_202=60, unknown=0.9),
    Fault("36a", "two reactors each, an instance killed", killed, env=TWO_REACTORS, seconds=2.5, unknown=0.3),
    Fault("36b", "two reactors each, FLUSHALL", flushall, env=TWO_REACTORS, seconds=2.5, rebuilds=8, refused_202=50),
    Fault("36c", "two reactors each, SIGTERM", terminated, env=TWO_REACTORS, seconds=2.5, unknown=0.1),
    Fault("40", "a second sale on the same stores", second_sale, rate=0, unknown=0.3),
]
