"""PostgreSQL down, full, read-only, or locked: 13 to 18."""

from __future__ import annotations

import shutil
import signal
import statistics
import threading
import time

from crowd import Event
from driver import Run
from fault import Fault
from rows_instances import nothing
from rows_tools import buy, entry_by_hand, fill, is_open, key, lock_row, open_voucher, recoveries, within
from stack import Broken, wait_for


def postgres_restarted(run: Run) -> None:
    run.postgres.stop_immediate()
    time.sleep(0.5)
    run.postgres.run()


def postgres_away(run: Run) -> None:
    run.postgres.stop_immediate()
    time.sleep(3)
    run.postgres.run()


def both_away(run: Run) -> None:
    run.postgres.stop_immediate()
    run.redis.end(signal.SIGKILL)
    time.sleep(0.8)
    run.redis.run(*run.stack.redis_settings)
    time.sleep(0.5)
    run.postgres.run()


def backends_terminated(run: Run) -> None:
    for _ in range(40):
        run.postgres.sql("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'seckill'")
        time.sleep(0.05)


def postgres_disk_full(run: Run) -> None:
    table_mb = run.postgres.sql("select pg_relation_size('voucher_order') >> 20")[0][0]
    disk = run.stack.small_disk("space", 1 + int(table_mb))
    if run.postgres.user:
        shutil.chown(disk, run.postgres.user, run.postgres.user)
    run.postgres.sql(f"create tablespace small location '{disk}'")
    try:
        run.postgres.sql("alter table voucher_order set tablespace small")
        ballast = disk / "ballast"
        fill(ballast)
        time.sleep(1.5)
        ballast.unlink()
    finally:
        run.postgres.sql("alter table voucher_order set tablespace pg_default")
        run.postgres.sql("drop tablespace small")
        run.stack.unmount(disk)


def orders_locked(run: Run) -> None:
    run.hold_orders(30).wait()


def commits_held(run: Run) -> None:
    """Nothing can be committed: no client may get 201, and a user with a pending order stays locked. Each instance has
    an order: one of them checks the journal, and finds the other's."""
    holder = run.hold_orders(4.8)
    buyers = [threading.Thread(target=run.buy, args=(f"solo{n}", n, 1.0)) for n in (0, 1)]
    for buyer in buyers:
        buyer.start()
    locked = True
    for _ in range(7):  # longer than a session lives without renewal, plus two checks
        time.sleep(0.5)
        seen = run.redis.call("HLEN", run.key("buyers")), run.redis.call("XLEN", run.key("journal"))
        if holder.poll() is None:  # else the lock was released meanwhile
            locked = locked and seen == (2, 2)
    if any(recoveries(instance) for instance in run.stack.instances):
        run.seen_meanwhile.append("orders of a living session were taken over")
    for buyer in buyers:
        buyer.join()
    for solo in (event for event in run.history if event.user.startswith("solo")):
        if solo.outcome != "ok":
            raise Broken(f"the order was not accepted: {solo.status} {solo.code}")
        if solo.status == 201:
            run.seen_meanwhile.append("201 was heard while nothing could be committed")
    if not locked:
        run.seen_meanwhile.append("a user was not locked while the order waited for COMMIT")
    holder.wait()


def read_only(run: Run) -> None:
    for value in ("on", "off"):
        run.postgres.sql(f"alter role seckill set default_transaction_read_only = {value}")
        run.postgres.sql("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'seckill'")
        time.sleep(1.0 if value == "on" else 0)


# ---- a problem of one voucher affects no other ----

MORE_MS = 60  # lock_timeout is 100: batches with the locked voucher wait for that


def p99_ms(run: Run, events: list[Event]) -> float:
    took_s = [event.ended - event.began - run.machine_late_s(event.began, event.ended) for event in events]
    return statistics.quantiles(took_s, n=100)[98] * 1000


def steady_buyers(run: Run, voucher: str, name: str, seconds: float) -> list[Event]:
    """A few users who buy one after the other, each a new user who waits for the commit."""
    events: list[Event] = []

    def work(which: int) -> None:
        until, n = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            events.append(buy(run, voucher, f"{name}{which}-{n}", n % 2))
            n += 1
            time.sleep(0.01)

    threads = [threading.Thread(target=work, args=(which,)) for which in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return events


def row_locked(run: Run) -> None:
    """Another transaction locks the row of the crowd's voucher; buyers of another voucher must not notice."""
    other = open_voucher(run, 3000)
    for name in ("once", "again"):  # a machine that stalls for a moment does not matter here
        before = steady_buyers(run, other, f"before-{name}", 1.0)
        holder = lock_row(run, run.vouchers[0], 2.5)
        meanwhile = steady_buyers(run, other, f"meanwhile-{name}", 2.0)
        holder.wait()
        late = [event for event in meanwhile if event.status != 201]
        if late:
            run.seen_meanwhile.append(f"{len(late)} of {len(meanwhile)} heard no 201, as {late[0].status} {late[0].code}")
        if len(meanwhile) < 20:
            run.seen_meanwhile.append(f"{len(meanwhile)} purchases in two seconds")
            return
        slower = f"p99 {p99_ms(run, meanwhile):.0f} ms, and {p99_ms(run, before):.0f} ms before"
        if p99_ms(run, meanwhile) <= p99_ms(run, before) + MORE_MS:
            return
    run.seen_meanwhile.append(f"twice: {slower}")


AUDITED_S = 7  # every 5 s where nothing changes, plus a round of the audit
DEAD = "01a1fbe1-0c46-72f8-bdd2-587980274000"  # a session that never existed


def recovery_held_up(run: Run) -> None:
    """An entry of one voucher cannot be settled, because its row is locked; another voucher is missing in Redis."""
    stuck, missing = open_voucher(run, 100), open_voucher(run, 100)
    entry_by_hand(run, stuck, "eve", "01a1fbe1-0c46-72f8-bdd2-587980274994", DEAD)
    holder = lock_row(run, stuck, 10)
    wait_for("recovery", lambda: "recovering journal entries" in run.first.text())
    run.redis.call("DEL", key(missing, "voucher"))
    within(run, "a missing voucher rebuilt, though another's row is locked", lambda: is_open(run, missing), AUDITED_S)
    run.postgres.sql("select pg_terminate_backend(pid) from pg_stat_activity where query like '%for update%'"
                     " and pid <> pg_backend_pid()")
    holder.wait()


ROWS = [
    Fault("13a", "PostgreSQL stopped immediately, restarted", postgres_restarted, short=True),
    Fault("13b", "PostgreSQL away for 3 s", postgres_away),
    Fault("13c", "both stores away", both_away, rebuilds=2, unknown=0.85),
    Fault("13d", "PostgreSQL restarted, 12 vouchers to a batch", postgres_restarted, vouchers=12, units=60),
    Fault("14", "backends terminated every 50 ms", backends_terminated, seconds=4.0),
    Fault("15", "PostgreSQL's disk full", postgres_disk_full),
    Fault("16a", "LOCK TABLE for 30 s", orders_locked),
    Fault("16b", "commits held: no 201, users locked", commits_held, rate=0, short=True),
    Fault(
        "16c",
        "a voucher's row locked, another goes on",
        row_locked,
        units=3000,
        seconds=6.0,
        alone=True,
    ),
    Fault(
        "16d",
        "a voucher's row locked, another is missing",
        recovery_held_up,
        instances=1,
        rate=0,
        rebuilds=4,
        unknown=0.3,
    ),
    Fault("17a", "overlapping batches in opposite order, 2 vouchers", nothing, vouchers=2, spread=True, opposite=True),
    Fault(
        "17b", "overlapping batches in opposite order, 20 vouchers", nothing,
        vouchers=20, units=40, spread=True, opposite=True,
    ),
    Fault("18", "PostgreSQL read-only", read_only),
]
