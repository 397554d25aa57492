"""Creating a voucher while a dependency fails: a client that repeats the call with its key gets one voucher."""

from __future__ import annotations

import signal
import time

from driver import Run
from fault import Fault
from machine import Deadline
from rows_tools import in_background, sells, terms


def create_until_it_is(run: Run, name: str, seconds: float = 8.0) -> None:
    """Retries its call with its key, at one instance after the other, as a careful client does."""
    title = f"wish {name}"
    wish, headers = terms(run, 20, title=title), run.voucher_key(name)
    made: list[str] = []
    states: list[str] = []
    deadline, n = Deadline(seconds), 0
    while len(made) < 3 and not deadline.passed():
        instance = run.stack.instances[n % len(run.stack.instances)]
        status, document = instance.ask("POST", "/admin/vouchers", body=wish, timeout=1.0, headers=headers)
        n += 1
        if status == 201:
            made.append(document["id"])
            states.append(document.get("state", ""))
        elif status not in (0, 503):
            run.seen_meanwhile.append(f"{name}: creating answered {status} {document}")
            break
        time.sleep(0.15)
    rows = [row[0] for row in run.postgres.sql(f"select id from seckill_voucher where title = '{title}' order by id")]
    run.vouchers += rows
    if len(made) < 3:
        run.seen_meanwhile.append(f"{name}: not created within {seconds:.0f} s")
    if len(rows) != 1 or set(made) - set(rows[:1]):
        run.seen_meanwhile.append(f"{name}: one wish, vouchers {rows}, told {made} {states}")
    for voucher in rows[:1]:
        sells(run, voucher, 8, f"wish {name}")


def created_amid_failures(run: Run) -> None:
    def wish(name: str, breaks, mends, seconds: float) -> None:
        breaks()
        asking = in_background(lambda: create_until_it_is(run, name))
        time.sleep(seconds)
        mends()
        asking.join()

    redis, pg = run.stack.redis_proxy, run.stack.pg_proxy

    def swallow(proxy, on: bool):
        return lambda: proxy.swallow.update(down=on)

    def killed() -> None:
        run.redis.end(signal.SIGKILL)

    # The row is committed and its answer lost; Redis cannot be loaded; Redis is down.
    wish("pg-silent", swallow(pg, True), swallow(pg, False), 1.2)
    wish("redis-silent", swallow(redis, True), swallow(redis, False), 1.2)
    wish("redis-gone", killed, lambda: run.redis.run(*run.stack.redis_settings), 1.2)


def created_while_another_loads(run: Run) -> None:
    """Another instance holds the lock for loading a voucher: the answer does not wait for it."""
    following = int(run.postgres.sql("select max(id) from seckill_voucher")[0][0]) + 1
    run.redis.call("SET", f"seckill:lock:rebuild:{{{following}}}", "somebody", "PX", 3000)
    create_until_it_is(run, "lock-taken")


ROWS = [
    Fault(
        "42a",
        "a voucher created while a store fails, and again",
        created_amid_failures,
        proxied=True,
        rate=0,
        rebuilds=20,
        unknown=0.95,
    ),
    Fault(
        "42b",
        "a voucher created while it cannot be loaded",
        created_while_another_loads,
        rate=0,
        unknown=1.0,
        full=True,
    ),
]
