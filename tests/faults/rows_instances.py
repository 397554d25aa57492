"""Instances that are killed, stopped or shut down: 1 to 3, 28."""

from __future__ import annotations

import signal
import threading
import time

from driver import Run
from fault import PLAIN, Fault
from life import move, tell
from rows_tools import buy, entry_by_hand, open_voucher, release, session_of
from stack import Broken, wait_for

LATECOMERS = 200


def killed_at(run: Run) -> None:
    """The failpoint is armed from the start; the crowd reaches it. On a slow machine, with larger batches, later users
    reach it, with a voucher of their own."""
    if run.wait_dead():
        return
    voucher = open_voucher(run, LATECOMERS)
    for n in range(LATECOMERS):
        bought = buy(run, voucher, f"late{n}")
        if bought.status in (201, 202):
            tell(run, move("cancel", bought, 0))
        if run.wait_dead(seconds=0.02):
            return
    raise Broken("the failpoint was not reached")


def killed_correcting(run: Run) -> None:
    """A user has an order that Redis does not know; another purchase corrects Redis."""
    hide_an_order(run)
    run.buy("twin", instance=0)
    killed_at(run)


def hide_an_order(run: Run) -> None:
    """The twin has an order, and its unit is taken, but Redis does not know its owner."""
    voucher = run.vouchers[0]
    run.postgres.sql(
        f"with twin as (insert into voucher_order (id, slot, user_id, voucher_id)"
        f" values (gen_random_uuid(), slot_of('{voucher}'), 'twin', {voucher}) returning *)"
        f" insert into order_placed (slot, voucher_id, ids) select slot, voucher_id, array[id] from twin;"
        f"update voucher_stock set stock = stock - 1, live = live + 1 where voucher_id = {voucher};"
    )
    run.redis.call("HINCRBY", run.key("voucher"), "stock", -1)
    run.hide_units(1)


def bought_twice(run: Run) -> None:
    hide_an_order(run)
    run.buy("twin")


def compensated_twice(run: Run) -> None:
    """It stops just before it compensates; another instance compensates; then it continues, and does so again."""
    hide_an_order(run)
    run.buy("twin", instance=0, timeout=1)
    wait_for("stopped", lambda: "writer.correcting" in run.first.text())
    wait_for("recovered", lambda: run.redis.call("XLEN", run.key("journal")) == 0 or recovered(run))
    run.first.signal(signal.SIGCONT)


def recovered(run: Run) -> bool:
    """Whether another instance has given the twin's entry its older order."""
    order = run.redis.call("HGET", run.key("buyers"), "twin")
    older = run.postgres.sql(f"select id from voucher_order where user_id = 'twin' and status = 'unpaid'")
    return [order] in older


def killed_reconciling(run: Run) -> None:
    """The journal has an entry of a living session, so that only a reconcile settles it. Then an admin reconciles."""
    order = "01a1fbe1-0c46-72f8-bdd2-587980274995"
    entry_by_hand(run, run.vouchers[0], "adam", order, session_of(run.stack.instances[1]))
    thread = threading.Thread(target=run.reconcile)
    thread.start()
    killed_at(run)
    run.healed()
    thread.join()


def killed_granting_again(run: Run) -> None:
    """Orders pile up in the instance while the other one's reconcile makes them stale. That reconcile cannot settle the
    journal either, so a second one follows."""
    epoch = f"select epoch > 1 from voucher_stock where voucher_id = {run.vouchers[0]}"
    holder = run.hold_orders(12)
    wait_for("orders under way", lambda: run.redis.call("XLEN", run.key("journal")) > 4)
    wait_for("fenced off", lambda: run.reconcile(1) and run.postgres.sql(epoch) == [["t"]])
    release(run)
    holder.wait()
    wait_for("reconciled", lambda: not run.first.alive() or run.reconcile(1) == 200)
    killed_at(run)


def stopped_and_continued(run: Run) -> None:
    run.first.signal(signal.SIGSTOP)
    time.sleep(2.5)
    run.first.signal(signal.SIGCONT)


def nothing(_run: Run) -> None:
    """The load itself is the fault."""


def terminated(run: Run) -> None:
    code = run.first.end(signal.SIGTERM, 10)
    if code != 0:
        run.leaks.append(f"SIGTERM: ended with {code}")


def at(point: str, number: int = 1) -> dict[str, str]:
    return {"SECKILL_FAILPOINTS": f"{point}=kill@{number}"}


# A long time-out for Redis, so that what it was about to send is still sent when it continues.
STOPPED_CORRECTING = {"SECKILL_FAILPOINTS": "writer.correcting=stop", "SECKILL_REDIS_TIMEOUT_MS": "15000"}
SMALL_BATCHES = {"SECKILL_BATCH_MAX": "8"}  # so that many wait

# Killed during a reconcile: the voucher stays closed for the TTL of its lock, and for a pause after failed attempts.
ROWS = [
    Fault("1a", "killed: script sent", killed_at, first_env=at("place.sent", 60), unknown=0.15),
    Fault("1b", "killed: script answered", killed_at, first_env=at("place.answered", 60), unknown=0.15),
    Fault("1c", "killed: batch made, nothing sent", killed_at, first_env=at("writer.collected", 25), unknown=0.15),
    Fault("1d", "killed: INSERT and COMMIT sent", killed_at, first_env=at("writer.sent", 25), short=True, unknown=0.15),
    Fault(
        "1e", "killed: committed, journal not cleared", killed_at,
        first_env=at("writer.committed", 25), short=True, unknown=0.15,
    ),
    Fault("1f", "killed: mid-compensation", killed_correcting, habits=PLAIN, first_env=at("writer.correcting"), units=2000),
    Fault(
        "1g", "killed: mid-reconcile, after the new epoch", killed_reconciling,
        first_env=at("rebuild.epoch"), rebuilds=3, unknown=0.15,
    ),
    Fault(
        "1h", "killed: mid-reconcile, voucher closed", killed_reconciling,
        first_env=at("rebuild.begun"), short=True, rebuilds=3, unknown=0.65,
    ),
    Fault(
        "1l", "killed: mid-reconcile, before opening", killed_reconciling,
        first_env=at("rebuild.opening"), rebuilds=3, unknown=0.65,
    ),
    Fault(
        "1m", "killed: granting again", killed_granting_again,
        env=SMALL_BATCHES, first_env=at("regrant.asked"), units=2000, rebuilds=6, unknown=0.5,
    ),
    Fault(
        "1n", "stopped mid-compensation, another compensates", compensated_twice,
        habits=PLAIN, first_env=STOPPED_CORRECTING, units=2000,
    ),
    Fault("1o", "an order that Redis does not know, bought again", bought_twice, units=2000),
    Fault(
        "1p", "killed: COMMIT sent, of 12 vouchers at once", killed_at,
        first_env=at("writer.sent", 25), vouchers=12, units=60, short=True, unknown=0.15,
    ),
    Fault("2", "stopped for 2.5 s, another instance recovers", stopped_and_continued, seconds=4.0, short=True),
    Fault("3a", "2 instances, each user at all of them at once", nothing, spread=True, short=True),
    Fault("3b", "3 instances, each user at all of them at once", nothing, spread=True, instances=3),
    Fault("28", "SIGTERM under load", terminated, short=True),
]
