"""A script that ran after its caller gave up: its orders are in the journal under the session of a living reactor that
does not hold them. Only that reactor can detect this, and it settles them: 33a, 33b, 33k.
"""

from __future__ import annotations

import signal
import threading
import time
from contextlib import suppress

from driver import Run
from fault import Fault
from proxy import Proxy
from rows_tools import buy, recoveries, restart, within
from stack import Broken, redis_url, wait_for

BUYERS = 8
ATTEMPTS = 3
SETTLED_S = 8.0  # the reactor checks once a second after its link is back
LATE_S, SOON_S = 2.5, 2.5  # after the reply is overdue and the link is back; the reactor looks once a second
LONG_TTL = {"SECKILL_LOCK_TTL_MS": "20000"}  # no session ends while the caller waits, nor soon after


def buyers_meanwhile(run: Run, instance: int, attempt: int = 0) -> list[threading.Thread]:
    """They buy at one instance; each of them gets an unknown outcome at best."""
    names = [f"late{instance}-{attempt}-{n}" for n in range(BUYERS)]
    threads = [threading.Thread(target=buy, args=(run, run.vouchers[0], name, instance)) for name in names]
    for thread in threads:
        thread.start()
    return threads


def settled_by_its_own(run: Run, instance: int, threads: list[threading.Thread]) -> None:
    one, other = run.stack.instances[instance], run.stack.instances[1 - instance]
    before = recoveries(other)
    for thread in threads:
        thread.join()
    within(run, f"orphans of {one.name} settled", lambda: recoveries(one) > 0, SETTLED_S)
    within(run, "an empty journal", lambda: run.redis.call("XLEN", run.key("journal")) == 0, SETTLED_S)
    rows = f"select count(*) from voucher_order where user_id like 'late{instance}-%'"
    if run.postgres.sql(rows) == [["0"]]:
        raise Broken("no script ran late")
    if recoveries(other) > before:
        run.seen_meanwhile.append("orders of a living session were taken over")
    if "session lost" in one.text():
        run.seen_meanwhile.append("the session was lost, which proves nothing about orphans")


def redis_stopped(run: Run) -> None:
    """An instance's call waits in Redis's socket. The instance gives up and closes its link; Redis continues and
    executes the call. First one instance, then the other, since one of them would check the journal anyway."""
    for instance in (0, 1):
        for attempt in range(ATTEMPTS):
            nothing_under_way(run)
            before = bought(run)
            run.redis.signal(signal.SIGSTOP)
            threads = buyers_meanwhile(run, instance, attempt)
            time.sleep(1.2)
            run.redis.signal(signal.SIGCONT)
            with suppress(Broken):
                wait_for("a script that ran late", lambda: bought(run) > before, 2.0)
                break
        settled_by_its_own(run, instance, threads)


def bought(run: Run) -> int:
    return run.redis.call("HLEN", run.key("buyers"))


def nothing_under_way(run: Run) -> None:
    """A link that waits for a reply sends no batch. It asks for the role once a second, so one try may still be in vain."""
    for instance in run.stack.instances:
        wait_for("ready", instance.ready)
    wait_for("selling", lambda: all(buy(run, run.vouchers[0], f"early{n}", n).outcome == "ok" for n in (0, 1)))
    wait_for("an empty journal", lambda: run.redis.call("XLEN", run.key("journal")) == 0)
    time.sleep(0.1)


def proxy_of_its_own(run: Run) -> Proxy:
    """The first instance reaches Redis through it alone."""
    own = run.stack.another_proxy(run.redis.port)
    restart(run.first, {"SECKILL_REDIS_URL": redis_url(own.port)})
    nothing_under_way(run)
    return own


def link_cut(run: Run) -> None:
    """Redis executes calls at once, and its replies are lost."""
    own = proxy_of_its_own(run)
    own.swallow["down"] = True
    threads = buyers_meanwhile(run, 0)
    wait_for("scripts carried out", lambda: run.redis.call("HLEN", run.key("buyers")) > 2)
    own.drop_all()
    own.swallow["down"] = False
    settled_by_its_own(run, 0, threads)


def arrives_late(run: Run) -> None:
    """A call is under way on the network. Its instance gives up, connects again and finds nothing. Then the call
    arrives, and is executed: the instance must still be looking."""
    own = proxy_of_its_own(run)
    before = bought(run)
    own.be_late(LATE_S)
    threads = buyers_meanwhile(run, 0)
    wait_for("a script that ran late", lambda: bought(run) > before, LATE_S + 2)
    within(run, "an empty journal soon", lambda: run.redis.call("XLEN", run.key("journal")) == 0, SOON_S)
    settled_by_its_own(run, 0, threads)


ALONE = {"rate": 0, "env": LONG_TTL, "unknown": 1.0}

ROWS = [
    Fault("33a", "a script carried out after its caller gave up", redis_stopped, short=True, **ALONE),
    Fault("33b", "a script's answer lost with its link", link_cut, **ALONE),
    Fault("33k", "a script arrives after its caller has looked for it", arrives_late, **ALONE),
]
