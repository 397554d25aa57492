"""PostgreSQL with a synchronous standby, which is away, or takes over: 61."""

from __future__ import annotations

import time

from driver import Run
from fault import PLAIN, Fault
from rows_tools import sells
from stack import Broken, PostgresServer, wait_for

CANCELLED_S = 2.0  # longer than SECKILL_PG_TIMEOUT_MS
ACCEPTED_S = 10.0
SOLD_S = 6.0  # after the promotion: the back-off of a link, and that of the writer, are 2 s at most
WAITING = "from pg_stat_activity where wait_event = 'SyncRep' and usename = 'seckill'"


def answers(run: Run, since: float, status: int) -> int:
    """How many purchases that began since then were answered so."""
    return sum(e.what == "buy" and e.status == status and e.began > since for e in list(run.history))


def cancel_waits(run: Run) -> None:
    """Without the standby no commit is replicated, and an operator cancels what waits for it. The orders are committed,
    here alone: no buyer may get 201, also not when they are settled again."""
    run.stack.standby.stop_immediate()
    began, n, until = time.time(), 0, time.monotonic() + CANCELLED_S
    while time.monotonic() < until or n < 10:
        n += len(run.postgres.sql(f"select pg_cancel_backend(pid) {WAITING}"))
        run.buy(f"solo{n}", n % 2)
        if time.monotonic() > until + 10:
            raise Broken(f"only {n} commits waited for the standby")
    if told := answers(run, began, 201):
        run.seen_meanwhile.append(f"{told} heard 201 while no standby could have their orders")
    if not answers(run, began, 202):
        run.seen_meanwhile.append("nobody was accepted while the standby was away")


def waits_cancelled(run: Run) -> None:
    cancel_waits(run)
    run.stack.standby.run()
    wait_for("a synchronous standby", run.stack.standby.is_synchronous)


def ids(server: PostgresServer) -> set[str]:
    return {row[0] for row in server.sql("select id from voucher_order")}


def failed_over(run: Run) -> None:
    """The primary's machine dies in the rush, and the standby takes over."""
    run.postgres.kill()
    killed, n, until = time.time(), 0, time.monotonic() + ACCEPTED_S
    time.sleep(0.8)
    while not answers(run, killed, 202) and time.monotonic() < until:
        run.buy(f"solo{n}", n % 2)  # a slow machine's crowd has perhaps bought nothing yet
        n += 1
    if not answers(run, killed, 202):
        run.seen_meanwhile.append("nobody was accepted while there was no primary")
    run.stack.fail_over()
    sells(run, run.vouchers[0], SOLD_S, "the new primary")


def failed_over_after_waits(run: Run) -> None:
    """The same, and the standby lacks orders that the old primary had committed."""
    cancel_waits(run)
    before = ids(run.postgres)
    run.postgres.kill()
    run.stack.standby.run()
    if not before - ids(run.stack.standby):
        raise Broken("the standby has all that was committed")
    run.stack.fail_over()
    sells(run, run.vouchers[0], SOLD_S, "the new primary")


ROWS = [
    Fault("61a", "the synchronous standby away, waits for it cancelled", waits_cancelled, units=2000, standby=True),
    Fault("61b", "the primary killed, the standby promoted", failed_over, units=2000, seconds=4.0, standby=True),
    Fault(
        "61c",
        "the same, of orders that the standby lacks",
        failed_over_after_waits,
        units=2000,
        seconds=5.0,
        # Reads show what is committed, replicated or not: a payment would be in the feed, and then gone.
        habits=PLAIN,
        standby=True,
    ),
]
