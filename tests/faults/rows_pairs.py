"""Two faults at once: Redis loses data, and an instance that holds accepted orders ends.

An accepted order is in two places until it is committed: in Redis's journal, and in the instance that granted it. A
row that takes both may cost those orders (`Run.lost_with` counts them). Nothing else may be lost, and an instance that
is only stopped, or that shuts down cleanly, costs none.
"""

from __future__ import annotations

import os
import signal
import time

from driver import Run
from fault import Fault
from rows_tools import accepted, kill, read_order, within
from stack import wait_for

HOLD_S = 0.5  # nothing is committed for this long: orders pile up


def flushed(run: Run) -> None:
    run.redis.call("FLUSHALL")


def rolled_back(run: Run, size: int) -> None:
    run.redis.end(signal.SIGKILL)
    os.truncate(run.redis.aof(), size)
    run.redis.run(*run.stack.redis_settings)


def gone(run: Run) -> None:
    kill(run)


def stopped(run: Run) -> None:
    run.first.signal(signal.SIGSTOP)


def pair(leave, lose):
    """Orders wait in both instances; one of them ends, and Redis loses them."""

    def inject(run: Run) -> None:
        size, began = run.redis.aof().stat().st_size, time.time()
        holder = run.hold_orders(HOLD_S)
        time.sleep(HOLD_S * 0.6)
        leave(run)
        if lose is rolled_back:
            lose(run, size)
        else:
            lose(run)
        if leave is gone:
            run.lost_with = (run.first.number, began - 0.2, time.time())  # 0.2 s: for what had not been committed by then
        holder.wait()
        if leave is stopped:
            rebuilt = lambda: run.redis.call("HGET", run.key("voucher"), "state") == "open"
            within(run, "rebuilt by the other", rebuilt, 10)
            time.sleep(0.3)
            run.first.signal(signal.SIGCONT)

    return inject


def ended_with_nothing_granted(run: Run) -> None:
    """The orders that Redis lost cannot be granted again before the instance must end: they must be refused, not
    forgotten, although units may be left."""
    run.hide_units(run.fault.units)
    began, holder = time.time(), run.hold_orders(HOLD_S)
    orders = [accepted(run, run.vouchers[0], f"waiting{n}") for n in range(20)]
    run.first.signal(signal.SIGSTOP)
    run.redis.call("FLUSHALL")
    held = [e for e in list(run.history) if e.instance == run.first.number and e.status == 202 and e.began >= began]
    run.refused_more = len(held)  # how many it had accepted depends on the machine; the other instance loses none
    holder.wait()
    rebuilt = lambda: run.redis.call("HGET", run.key("voucher"), "state") == "open"
    wait_for("rebuilt by the other", rebuilt)
    run.redis.call("CONFIG", "SET", "maxmemory", 1)
    run.first.signal(signal.SIGCONT)
    time.sleep(0.5)
    run.first.signal(signal.SIGTERM)
    within(run, "ended in order", lambda: not run.first.alive(), 10)
    run.redis.call("CONFIG", "SET", "maxmemory", 0)
    for order in orders:
        read_order(run, order, 1)


TAKES_BOTH = {"seconds": 2.5, "units": 2000, "refused_202": 30, "rebuilds": 4, "unknown": 0.4}
TAKES_ONE = {"seconds": 2.5, "units": 2000, "refused_202": 30, "rebuilds": 4, "unknown": 0.4}
SHORT_DRAIN = {"SECKILL_DRAIN_TIMEOUT_MS": "1500"}

ROWS = [
    Fault("37a", "FLUSHALL, and an instance with orders killed", pair(gone, flushed), **TAKES_BOTH),
    Fault("37h", "Redis rolled back, an instance stopped", pair(stopped, rolled_back), **TAKES_ONE),
    Fault(
        "37i",
        "terminated while nothing can be granted again",
        ended_with_nothing_granted,
        env=SHORT_DRAIN,
        **TAKES_ONE | {"unknown": 0.8},
    ),
]
