"""A script that ran after its caller gave up: its orders are in the journal under the session of a reactor that lives and
does not hold them. Only that reactor can tell, and it settles them: 33a, 33b.
"""

from __future__ import annotations

import signal
import threading
import time

from driver import Run
from fault import Fault
from rows_tools import buy, recoveries, restart, session_of, within
from stack import Broken, wait_for

BUYERS = 8
SETTLED_S = 8.0  # the reactor looks once a second, once it has its link back
LONG_TTL = {"SECKILL_LOCK_TTL_MS": "20000"}  # no session ends while the caller waits, nor soon after


def buyers_meanwhile(run: Run) -> list[threading.Thread]:
    """They buy at the first instance; none of them will hear more than that the outcome is unknown."""
    threads = [threading.Thread(target=buy, args=(run, run.vouchers[0], f"late{n}")) for n in range(BUYERS)]
    for thread in threads:
        thread.start()
    return threads


def settled_by_their_own(run: Run, threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join()
    rows = f"select count(*) from voucher_order where user_id like 'late%' and voucher_id = {run.vouchers[0]}"
    within(run, "orphans settled", lambda: recoveries(run.first) > 0, SETTLED_S)
    wait_for("an empty journal", lambda: run.redis.call("XLEN", run.key("journal")) == 0)
    if run.postgres.sql(rows) == [["0"]]:
        raise Broken("no script ran late")
    if recoveries(run.stack.instances[1]):
        run.seen_meanwhile.append("orders of a living session were taken over")
    if "session lost" in run.first.text():
        run.seen_meanwhile.append("the session was lost, which proves nothing about orphans")


def redis_stopped(run: Run) -> None:
    """What the instance has sent waits in Redis's socket. It gives up and closes its link; Redis goes on and does it."""
    session = session_of(run.first)
    run.redis.signal(signal.SIGSTOP)
    threads = buyers_meanwhile(run)
    time.sleep(1.2)
    run.redis.signal(signal.SIGCONT)
    settled_by_their_own(run, threads)
    if run.redis.call("EXISTS", f"seckill:session:{session}") != 1:
        run.seen_meanwhile.append("the session is gone from Redis")


def link_cut(run: Run) -> None:
    """Redis does at once what it is told, and its answers do not arrive."""
    own = run.stack.another_proxy(run.redis.port)
    restart(run.first, {"SECKILL_REDIS_URL": f"redis://127.0.0.1:{own.port}"})
    wait_for("selling", lambda: buy(run, run.vouchers[0], "early").outcome == "ok")
    wait_for("nothing under way", lambda: run.redis.call("XLEN", run.key("journal")) == 0)
    time.sleep(0.1)  # Redis's answer to the settlement: a link that waits for one sends no batch
    own.swallow["down"] = True
    threads = buyers_meanwhile(run)
    wait_for("scripts carried out", lambda: run.redis.call("HEXISTS", run.key("buyers"), "late0") == 1)
    own.drop_all()
    own.swallow["down"] = False
    settled_by_their_own(run, threads)


ALONE = {"rate": 0, "env": LONG_TTL, "unknown": 1.0}

ROWS = [
    Fault("33a", "a script carried out after its caller gave up", redis_stopped, short=True, **ALONE),
    Fault("33b", "a script's answer lost with its link", link_cut, **ALONE),
]
