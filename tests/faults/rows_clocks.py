"""Clocks that jump: 23."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

from driver import Run
from fault import Fault
from rows_tools import accepted, clock_env, kill, release, session_of, set_clock, within
from stack import wait_for

SETTLED_S = 6.0  # the session is gone after 0.8 s, and checks run once a second

def step(file: Path) -> None:
    for seconds in (60, -60, 3600, -3600, 0):
        set_clock(file, seconds)
        time.sleep(0.6)


def service_clock_steps(run: Run) -> None:
    file = run.stack.folder / "clock"
    env = clock_env(run, file)
    for instance in run.stack.instances:
        instance.end(signal.SIGTERM)
        instance.run(env)
        instance.wait_ready()
    step(file)


def redis_clock_steps(run: Run) -> None:
    file = run.stack.folder / "clock"
    run.redis.preload = clock_env(run, file)
    run.redis.end(signal.SIGTERM)
    run.redis.run(*run.stack.redis_settings)
    step(file)
    run.redis.preload = {}


def clock_back_with_a_dead_instance(run: Run) -> None:
    """Entries of the hour that is repeated keep the newest ids for an hour, and so do the dead instance's orders. It
    dies before it could renew its session on the clock that went back."""
    file = run.stack.folder / "clock"
    run.redis.preload = clock_env(run, file)
    run.redis.end(signal.SIGTERM)
    run.redis.run(*run.stack.redis_settings)
    run.redis.preload = {}
    last = lambda: run.redis.call("HGET", run.key("voucher"), "last") or ""
    wait_for("selling", lambda: last() and not last().startswith("epoch"))
    set_clock(file, 3600)
    future = (time.time() + 3000) * 1000
    wait_for("an entry of the future", lambda: float((re.match(r"\d+", last()) or ["0"])[0]) > future)
    end_ms = lambda: float(run.redis.call("ZSCORE", "seckill:{shared}:sessions", session_of(run.first)) or 0)
    wait_for("a session until then", lambda: end_ms() > future)  # taken or renewed once a second
    holder = run.hold_orders(20)
    for n in range(20):
        accepted(run, run.vouchers[0], f"stranded{n}")
    run.first.signal(signal.SIGSTOP)
    ends_ms = end_ms()
    set_clock(file, 0)
    if ends_ms < future:
        run.seen_meanwhile.append(f"its session has no hour left ({ends_ms:.0f}), which proves nothing")
    kill(run)
    release(run)
    holder.wait()
    stranded = (
        "select 1 from voucher_order where user_id like 'stranded%' and status = 'unpaid' group by voucher_id"
        " having count(*) = 20"
    )
    within(run, "orders of a dead instance settled", lambda: run.postgres.sql(stranded) == [["1"]], SETTLED_S)


ROWS = [
    Fault("23a", "the service's clock steps 1 min and 1 h, both ways", service_clock_steps, seconds=4.0, unknown=0.15),
    Fault(
        "23b", "Redis's clock steps 1 min and 1 h, both ways", redis_clock_steps,
        seconds=4.0, rebuilds=2, unknown=0.15,
    ),
    Fault(
        "23c",
        "Redis's clock back an hour, an instance dead",
        clock_back_with_a_dead_instance,
        units=2000,
        rebuilds=6,
        unknown=0.5,
    ),
]
