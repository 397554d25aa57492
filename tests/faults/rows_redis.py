"""Redis's clock, and two masters at once."""

from __future__ import annotations

import signal
import time

from driver import Fault, Run
from faults import clock_env
from rows_tools import accepted, kill, restart, set_clock, within
from stack import wait_for

SETTLED_S = 6.0  # recovery begins a second after an entry was made, and looks once a second


def clock_back_with_a_dead_instance(run: Run) -> None:
    """What was written in the hour that did not take place has the newest ids for an hour; so have the dead one's
    orders."""
    file = run.stack.folder / "clock"
    run.redis.preload = clock_env(run, file)
    run.redis.end(signal.SIGTERM)
    run.redis.run(*run.stack.redis_settings)
    run.redis.preload = {}
    last = lambda: run.redis.call("HGET", run.key("voucher"), "last") or ""
    wait_for("selling", lambda: last() and not last().startswith("epoch"))
    set_clock(file, 3600)
    future = (time.time() + 3000) * 1000
    wait_for("an entry of the future", lambda: last()[:1].isdigit() and float(last().split("-")[0]) > future)
    set_clock(file, 0)
    holder = run.hold_orders(0.6)
    for n in range(20):
        accepted(run, run.vouchers[0], f"stranded{n}")
    kill(run)
    holder.wait()
    stranded = (
        "select 1 from voucher_order where user_id like 'stranded%' and status = 'unpaid' group by voucher_id"
        " having count(*) = 20"
    )
    within(run, "orders of a dead instance settled", lambda: run.postgres.sql(stranded) == [["1"]], SETTLED_S)


def both_masters(run: Run) -> None:
    """A replica is promoted and only one instance follows; both sell for a while. Then all follow."""
    second = run.stack.instances[1]
    own = run.stack.another_proxy(run.redis.port)
    restart(second, {"SECKILL_REDIS_URL": f"redis://127.0.0.1:{own.port}"})
    old, replica = run.redis, run.stack.new_redis()
    replica.run("always")
    run.stack.others.append(replica)
    replica.call("REPLICAOF", "127.0.0.1", old.port)
    wait_for("replica", lambda: "master_link_status:up" in replica.call("INFO", "replication"))
    replica.call("REPLICAOF", "NO", "ONE")
    own.upstream = replica.port
    own.drop_all()
    time.sleep(1.5)  # two masters
    run.stack.redis_proxy.upstream = replica.port
    run.stack.redis_proxy.drop_all()
    run.stack.redis, run.stack.others = replica, [old]
    run.stack.redis_settings = ()  # the next fault starts its own
    run.healed()
    old.end(signal.SIGKILL)
    second.env |= {"SECKILL_REDIS_URL": f"redis://127.0.0.1:{own.port}"}


ROWS = [
    Fault(
        "12c",
        "two masters, each with an instance, for 1.5 s",
        both_masters,
        proxied=True,
        units=2000,
        seconds=4.0,
        rate=250,
        rebuilds=20,
        refused_202=120,
        unknown=0.6,
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
