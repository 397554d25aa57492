"""Redis loses data, or comes back with older ones: 4 to 7."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time

from driver import Run
from fault import Fault
from machine import Deadline
from rows_tools import accepted, is_open, read_order, release
from stack import Broken, wait_for

HELD_S = 20  # commits are held until they are released


def redis_killed(run: Run) -> None:
    run.redis.end(signal.SIGKILL)
    time.sleep(0.3)
    run.redis.run(*run.stack.redis_settings)


def redis_cut_inside_its_last_transaction(run: Run) -> None:
    run.redis.end(signal.SIGKILL)
    file = run.redis.aof()
    os.truncate(file, max(0, file.stat().st_size - 10))
    run.redis.run(*run.stack.redis_settings)


def redis_back_a_second(run: Run) -> None:
    size = run.redis.aof().stat().st_size
    time.sleep(1.0)
    run.redis.end(signal.SIGKILL)
    os.truncate(run.redis.aof(), size)
    run.redis.run(*run.stack.redis_settings)


def redis_erased(run: Run) -> None:
    holder = run.hold_orders(0.5)  # only the instances have the orders
    run.redis.end(signal.SIGKILL)
    run.redis.erase()
    run.redis.run(*run.stack.redis_settings)
    holder.wait()


def flushall(run: Run) -> None:
    run.redis.call("FLUSHALL")


def flushall_while_orders_wait(run: Run) -> None:
    holder = run.hold_orders(0.5)
    time.sleep(0.2)
    run.redis.call("FLUSHALL")
    holder.wait()


def sold_out_meanwhile(run: Run) -> None:
    """Redis loses the grants of a stopped instance; by the time it continues, all units are sold."""
    holder = run.hold_orders(HELD_S)
    accepted(run, run.vouchers[0], "sleeper")  # whatever the crowd has done by then
    time.sleep(0.3)
    run.first.signal(signal.SIGSTOP)
    run.redis.call("FLUSHALL")
    release(run)
    holder.wait()
    wait_for("rebuilt", lambda: run.redis.call("HGET", run.key("voucher"), "state") == "open")
    deadline, n = Deadline(10), 0
    while run.buy(f"late{n}", 1, 5.0).code != "SOLD_OUT":
        n += 1
        if deadline.passed():
            raise Broken("never sold out")
    run.first.signal(signal.SIGCONT)
    lost = "select 1 from voucher_order where reason = 'GRANT_LOST' limit 1"
    wait_for("an order that woke too late", lambda: run.postgres.sql(lost), 10)


def rebuilt_meanwhile(run: Run) -> None:
    """The same with units left: its late orders must not bypass Redis."""
    holder = run.hold_orders(HELD_S)
    accepted(run, run.vouchers[0], "sleeper")  # whatever the crowd has done by then
    time.sleep(0.4)
    run.first.signal(signal.SIGSTOP)
    run.redis.call("FLUSHALL")
    release(run)
    holder.wait()
    wait_for("rebuilt", lambda: run.buy("late", 1, 5.0).outcome == "ok")
    time.sleep(0.3)
    run.first.signal(signal.SIGCONT)


def rolled_back_mid_reconcile(run: Run) -> None:
    """A reconcile is stopped while it writes the buyers; meanwhile Redis loses those written."""
    thread = threading.Thread(target=run.reconcile)
    thread.start()
    wait_for("stopped", lambda: "rebuild.buyers" in run.first.text())
    run.redis.call("DEL", run.key("buyers"))
    run.first.signal(signal.SIGCONT)
    thread.join()


def flushed_while_buyers_are_read(run: Run) -> None:
    """All is sold, and an instance reads the buyers, to refuse all others from memory: now there are none."""
    wait_for("stopped", lambda: "admit.counted" in run.first.text())
    winners = sorted({event.user for event in list(run.history) if event.status == 201})[:40]
    holder = run.hold_orders(0.5, "voucher_stock")  # no instance rebuilds the voucher yet
    run.redis.call("FLUSHALL")
    run.first.signal(signal.SIGCONT)
    for winner in winners:  # now: the first attempt at a rebuild makes the instance forget
        run.buy(winner, 0)
    holder.wait()


def forgotten_after_a_rebuild(run: Run) -> None:
    """An instance with accepted orders is stopped, Redis loses its data, and another instance rebuilds."""
    holder = run.hold_orders(0.6)
    orders = [accepted(run, run.vouchers[0], f"waiting{n}") for n in range(20)]
    run.first.signal(signal.SIGSTOP)
    written, at = ids_in_postgres(run), time.time()
    run.redis.call("FLUSHALL")
    holder.wait()
    wait_for("rebuilt", lambda: is_open(run, run.vouchers[0]))
    for order in orders:
        read_order(run, order, 1)
    run.first.signal(signal.SIGCONT)
    run.count_refused = lambda: len(bought_again(run, written, at))


def ids_in_postgres(run: Run) -> set[str]:
    return {row[0] for row in run.postgres.sql("select id from voucher_order")}


def bought_again(run: Run, written: set[str], lost_at: float) -> set[str]:
    """Accepted orders that Redis has lost before they were written, and whose users asked again after that: such an order
    is refused if the later one is granted first. How many there are depends on the machine."""
    buys = [event for event in list(run.history) if event.what == "buy"]
    lost = {e.order: e.user for e in buys if e.status == 202 and e.began < lost_at and e.order not in written}
    again: dict[str, set[str]] = {}
    for e in buys:
        if e.ended > lost_at and e.outcome != "refused" and e.code != "LOADING":
            again.setdefault(e.user, set()).add(e.order)
    return {order for order, user in lost.items() if again.get(user, set()) - {order}}


def old_copy_restored(run: Run) -> None:
    copy = run.redis.dir.with_name("redis-copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(run.redis.dir, copy)
    time.sleep(0.8)
    run.redis.end(signal.SIGKILL)
    shutil.rmtree(run.redis.dir)
    copy.rename(run.redis.dir)
    run.redis.run(*run.stack.redis_settings)


def old_copy_restored_in_place(run: Run) -> None:
    """The process is the same, so no new run id reveals it, only the data. Both keys change in one step: a voucher that
    went back alone is rebuilt at once, and nothing could soon detect old buyers in the new voucher."""
    keys = [run.key("voucher"), run.key("buyers")]
    copies = run.redis.call("EVAL", "return { redis.call('DUMP', KEYS[1]), redis.call('DUMP', KEYS[2]) }", 2, *keys)
    time.sleep(0.8)
    restore = "for i = 1, 2 do redis.call('RESTORE', KEYS[i], 0, ARGV[i], 'REPLACE') end"
    run.redis.call("EVAL", restore, 2, *keys, *(copy.encode("latin-1") for copy in copies))


def restarted_behind(run: Run) -> None:
    """Redis comes back with an older state, while PostgreSQL, which has the newer one, is down."""
    copy = run.redis.dir.with_name("redis-copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(run.redis.dir, copy)
    winners = [f"winner{n}" for n in range(10)]
    for winner in winners:
        run.buy(winner)
    run.postgres.stop_immediate()
    run.redis.end(signal.SIGKILL)
    shutil.rmtree(run.redis.dir)
    copy.rename(run.redis.dir)
    run.redis.run(*run.stack.redis_settings)
    run.redis.call("HSET", run.key("voucher"), "stock", 0)  # others would have bought the rest
    epoch = run.redis.call("HGET", run.key("voucher"), "epoch")
    time.sleep(0.5)
    for winner in winners:
        run.buy(winner)
    run.postgres.run()
    wait_for("rebuilt", lambda: run.redis.call("HGET", run.key("voucher"), "epoch") != epoch and is_open(run, run.vouchers[0]))
    time.sleep(run.fault.mark_s())  # a unit that returned after a sell-out does not sell before that


SMALL_BATCHES = {"SECKILL_BATCH_MAX": "8"}  # so that many wait
STOPPED_COUNTING = {
    "SECKILL_FAILPOINTS": "admit.counted=stop",
    "SECKILL_REDIS_TIMEOUT_MS": "5000",  # longer than it is stopped
    "SECKILL_SOLD_OUT_MARK_MS": "2000",
}
STOPPED_RECONCILING = {"SECKILL_FAILPOINTS": "rebuild.buyers=stop"}

ROWS = [
    Fault("4a", "Redis killed, appendfsync always", redis_killed, short=True, rebuilds=2, unknown=0.35),
    Fault("4b", "Redis killed, appendfsync everysec", redis_killed, appendfsync="everysec", rebuilds=2, unknown=0.35),
    Fault(
        "5a", "Redis's file cut inside its last transaction", redis_cut_inside_its_last_transaction,
        refused_202=25, rebuilds=2, unknown=0.15,
    ),
    Fault(
        "5b", "Redis's file cut one second earlier", redis_back_a_second,
        short=True, refused_202=25, rebuilds=2, unknown=0.15,
    ),
    Fault("6a", "FLUSHALL", flushall, refused_202=25, rebuilds=2, unknown=0.1),
    Fault(
        "6b", "FLUSHALL while orders wait for PostgreSQL", flushall_while_orders_wait,
        env=SMALL_BATCHES, short=True, refused_202=120, rebuilds=2, unknown=0.15,
    ),
    Fault("6c", "Redis comes back empty while orders wait", redis_erased, refused_202=120, rebuilds=2, unknown=0.3),
    Fault(
        "6d", "Redis empty, and all sold by the time an order wakes", sold_out_meanwhile,
        # The machine decides how many orders wait and are lost: at most the units that one of two instances grants.
        units=400, env=SMALL_BATCHES, refused_202=200, rebuilds=2, unknown=0.3,
    ),
    Fault(
        "6e", "buyers lost in the middle of a reconcile", rolled_back_mid_reconcile,
        first_env=STOPPED_RECONCILING, rebuilds=3, unknown=0.35,
    ),
    Fault(
        "6f", "Redis rebuilt while an instance with orders is stopped", rebuilt_meanwhile,
        units=2000, env=SMALL_BATCHES, refused_202=60, rebuilds=2, unknown=0.2,
    ),
    Fault(
        "6g", "FLUSHALL while the buyers are read", flushed_while_buyers_are_read,
        units=100, first_env=STOPPED_COUNTING, refused_202=25, rebuilds=2, unknown=0.45,
    ),
    Fault(
        "6h",
        "an instance with orders away after a rebuild",
        forgotten_after_a_rebuild,
        units=2000,
        env={"SECKILL_BATCH_MAX": "8"},
        rebuilds=4,
        refused_202=20,
        unknown=0.3,
    ),
    Fault("7a", "an old copy of Redis's data restored", old_copy_restored, refused_202=25, rebuilds=2, unknown=0.15),
    Fault(
        "7b", "old keys restored in the same process", old_copy_restored_in_place,
        may_differ=True, refused_202=25, rebuilds=2,
    ),
    Fault(
        "7c", "an old copy restored, the winners since ask again", restarted_behind,
        units=2000, refused_202=25, rebuilds=2, unknown=0.85,  # as in 7a: orders accepted since the copy are lost
    ),
]
