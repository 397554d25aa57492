"""PostgreSQL with a synchronous standby, and Redis with a replica and sentinels: one is away, or takes over: 61, 62."""

from __future__ import annotations

import signal
import time
from dataclasses import replace

from driver import Run
from fault import PLAIN, Fault
from machine import Deadline
from rows_tools import buy, sells
from stack import Broken, PostgresServer, free_port, wait_for

CANCELLED_S = 2.0  # longer than SECKILL_PG_TIMEOUT_MS
ACCEPTED_S = 10.0
LAGS_S = 0.4
SOLD_S = 6.0  # after the promotion: the back-off of a link, and that of the writer, are 2 s at most
WAITING = "from pg_stat_activity where wait_event = 'SyncRep' and usename = 'seckill'"


def answers(run: Run, since: float, status: int) -> int:
    """How many purchases that began since then were answered so."""
    return sum(e.what == "buy" and e.status == status and e.began > since for e in list(run.history))


def ids(server: PostgresServer) -> set[str]:
    return {row[0] for row in server.sql("select id from voucher_order")}


def cancel_waits(run: Run) -> None:
    """Without the standby no commit is replicated, and an operator cancels what waits for it. The orders are committed,
    here alone: no buyer may get 201, also not when they are settled again, or when one is asked for again by its
    Idempotency-Key. A first answer that is repeated is 201 if the standby has the order since before."""
    run.stack.standby.stop_immediate()
    wait_for("what the standby confirmed", lambda: run.postgres.sql("select from pg_stat_replication") == [])
    replicated = ids(run.postgres)  # what waits is not visible yet
    began, n, tries = time.time(), 0, 0
    until, deadline = time.monotonic() + CANCELLED_S, Deadline(CANCELLED_S + 10)
    while time.monotonic() < until or n < 10:
        n, tries = n + len(run.postgres.sql(f"select pg_cancel_backend(pid) {WAITING}")), tries + 1
        if tries % 2:
            buy(run, run.vouchers[0], "repeater", n % 2, timeout=1.0, key="repeated")
        else:
            run.buy(f"solo{n}", n % 2)
        if n < 10 and deadline.passed():
            raise Broken(f"only {n} commits waited for the standby")
    lacking = [e for e in list(run.history) if e.what == "buy" and e.status == 201 and e.order not in replicated]
    if lacking:
        keyed = sum(bool(e.key) for e in lacking)
        run.seen_meanwhile.append(f"{len(lacking)} heard 201 of orders that no standby has, {keyed} of them by a key")
    if not answers(run, began, 202):
        run.seen_meanwhile.append("nobody was accepted while the standby was away")


def waits_cancelled(run: Run) -> None:
    cancel_waits(run)
    run.stack.standby.run_again()


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


def no_standby(run: Run) -> None:
    """Commits wait, so buyers get 202, and 503 once as many orders wait as may."""
    began = time.time()
    run.stack.standby.stop_immediate()
    wait_for("accepted", lambda: answers(run, began, 202))
    wait_for("full", lambda: any(e.code == "OVERLOADED" and e.began > began for e in list(run.history)))
    run.stack.standby.run_again()


# ---- sentinels ----


def master_killed(run: Run) -> None:
    run.watched.fail_over()
    sells(run, run.vouchers[0], SOLD_S, "the new master")


def master_killed_before_a_laggard(run: Run) -> None:
    run.watched.replica.call("REPLICAOF", "127.0.0.1", free_port())  # its link is cut
    time.sleep(LAGS_S)
    master_killed(run)


def master_stopped(run: Run) -> None:
    """It comes back as a master: it carries out what was sent to it before, and grants orders of its own."""
    old = run.watched.fail_over(signal.SIGSTOP)
    sells(run, run.vouchers[0], SOLD_S, "the new master")
    old.signal(signal.SIGCONT)
    wait_for("the old master a replica", lambda: "role:slave" in old.call("INFO", "replication"), 40)


def liars_alone(run: Run) -> None:
    """Of five sentinels two lie and two are away: no more than half agree, so a Redis that works is not left."""
    honest, away = run.watched.sentinels, time.time()
    for one in honest[1:]:
        one.end(signal.SIGKILL)
    time.sleep(1.5)
    if not answers(run, away, 201):
        run.seen_meanwhile.append("nobody bought while sentinels were away")
    for one in honest[1:]:
        one.run()


def both_failed_over(run: Run) -> None:
    run.postgres.kill()
    run.watched.fail_over()
    run.stack.fail_over()
    sells(run, run.vouchers[0], SOLD_S, "both new stores")


ROWS = [
    Fault("61a", "the synchronous standby away, waits for it cancelled", waits_cancelled, units=2000, standby=True),
    Fault("61b", "the primary killed, the standby promoted", failed_over, units=2000, seconds=4.0, standby=True),
    Fault(
        "61c",
        "the same, of orders that the standby lacks",
        failed_over_after_waits,
        units=2000,
        seconds=5.0,
        # Reads show what is committed, replicated or not: an event would be in the feed, and then gone, and its number
        # would be another's.
        habits=replace(PLAIN, followed=False),
        standby=True,
    ),
    Fault(
        "61d", "no standby at all: 202, then 503", no_standby,
        units=2000, seconds=5.0, env={"SECKILL_ORDERS_MAX": "64", "SECKILL_BATCH_MAX": "32"}, standby=True, unknown=0.9,
    ),
    Fault(
        "62a", "the master killed, sentinels promote the replica", master_killed,
        units=2000, seconds=4.0, sentinels=True, refused_202=25, rebuilds=2, unknown=0.6,
    ),
    Fault(
        "62b", "the same, with a replica that lags by 0.4 s", master_killed_before_a_laggard,
        units=2000, seconds=4.0, sentinels=True, refused_202=40, rebuilds=2, unknown=0.6,
    ),
    Fault(
        "62c", "the old master comes back as a master", master_stopped,
        units=2000, seconds=5.0, sentinels=True, refused_202=25, rebuilds=3, unknown=0.6,
    ),
    Fault("62d", "two of five sentinels lie, two are away", liars_alone, units=2000, sentinels=True, liars=2),
    Fault(
        "62e", "both stores fail over at once", both_failed_over,
        units=2000, seconds=5.0, standby=True, sentinels=True, refused_202=40, lost_202=40, rebuilds=3, unknown=0.8,
    ),
]
