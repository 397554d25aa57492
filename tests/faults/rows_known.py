"""What is known to fail until it is mended: each of these rows says which finding it stands for, and by which assertion
it fails. When one passes, the suite fails, so that the mark is taken away.
"""

from __future__ import annotations

import signal
import statistics
import threading
import time

from crowd import Event
from driver import Fault, Run
from rows_tools import accepted, buy, crowd, insert_vouchers, is_open, key, lock_row, look, open_voucher, within
from stack import wait_for

# ---- one voucher's trouble is no other's ----

MORE_MS = 100


def p99_ms(events: list[Event]) -> float:
    return statistics.quantiles([(event.ended - event.began) * 1000 for event in events], n=100)[98]


def steady_buyers(run: Run, voucher: str, name: str, seconds: float) -> list[Event]:
    """A few who buy one after the other, each a new user who waits for the commit."""
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
    """Somebody's transaction has the row of the crowd's voucher; those of another voucher must not notice."""
    other = open_voucher(run, 3000)
    before = steady_buyers(run, other, "before", 1.0)
    holder = lock_row(run, run.vouchers[0], 2.5)
    meanwhile = steady_buyers(run, other, "meanwhile", 2.0)
    holder.wait()
    late = [event for event in meanwhile if event.status != 201]
    if late:
        run.seen_meanwhile.append(f"{len(late)} of {len(meanwhile)} heard no 201, as {late[0].status} {late[0].code}")
    if len(meanwhile) < 20:
        run.seen_meanwhile.append(f"{len(meanwhile)} purchases in two seconds")
    elif p99_ms(meanwhile) > p99_ms(before) + MORE_MS:
        run.seen_meanwhile.append(f"p99 {p99_ms(meanwhile):.0f} ms, and {p99_ms(before):.0f} ms before")


def recovery_held_up(run: Run) -> None:
    """An entry of one voucher cannot be settled, because its row is locked; another voucher is missing in Redis."""
    stuck, missing = open_voucher(run, 100), open_voucher(run, 100)
    order, user = "01a1fbe1-0c46-72f8-bdd2-587980274994", "eve"
    run.redis.call("HINCRBY", key(stuck, "voucher"), "stock", -1)  # before the buyer: the suite looks on
    run.redis.call("HSET", key(stuck, "buyers"), user, order)
    entry = run.redis.call("XADD", key(stuck, "journal"), "*", "epoch", 1, "orders", f"{order} {user}")
    run.redis.call("HSET", key(stuck, "voucher"), "last", entry)
    holder = lock_row(run, stuck, 8)
    wait_for("recovery", lambda: "recovering journal entries" in run.first.text())
    run.redis.call("DEL", key(missing, "voucher"))
    within(run, "a missing voucher rebuilt, though another's row is locked", lambda: is_open(run, missing), 5)
    run.postgres.sql("select pg_terminate_backend(pid) from pg_stat_activity where query like '%for update%'"
                     " and pid <> pg_backend_pid()")
    holder.wait()


# ---- accepted orders of vouchers that nobody looks at ----

REFUSE_ALL = (
    "create function refuse_some() returns trigger language plpgsql as $$ begin"
    " if new.voucher_id = %s and new.status <> 'refused' then raise 'no'; end if; return new; end $$;"
    "create trigger refuse_some before insert on voucher_order for each row execute function refuse_some()"
)


def ended_yesterday(run: Run) -> None:
    """An accepted order waits in a dead letter for a person's decision, who comes after the weekend."""
    voucher = open_voucher(run, 50)
    run.postgres.sql(REFUSE_ALL % voucher)
    path = f"/admin/vouchers/{voucher}/dead-letters"
    try:
        order = accepted(run, voucher, "bob")
        wait_for("dead letter", lambda: run.first.ask("GET", path)[1].get("dead_letters"), 20)
        ends = "update seckill_voucher set begin_at = begin_at - interval '3 days', end_at = end_at - interval '3 days'"
        run.postgres.sql(f"{ends} where id = {voucher}")
        for instance in range(2):
            look(run, order, instance)
        run.postgres.sql(f"{ends.replace(' - ', ' + ')} where id = {voucher}")
    finally:
        run.postgres.sql("drop trigger refuse_some on voucher_order; drop function refuse_some()")
    for letter in run.first.ask("GET", path)[1].get("dead_letters", []):
        run.first.ask("POST", f"{path}/{letter['id']}/requeue")


def older_than_1000_others(run: Run) -> None:
    """The newest thousand are looked at, and the accepted order is of none of them. All are loaded, as they would be
    after a while; loading them is for another row. Who is asked has nothing to write, so it can ask PostgreSQL."""
    process = run.redis.call("INFO", "server").split("run_id:")[1][:40]
    holder = run.hold_orders(5)  # longer than loading them takes on a slow disk
    order = accepted(run, run.vouchers[0], "first-of-all")
    others = insert_vouchers(run, 1300, 1, epoch=1)
    loaded = ["state", "open", "epoch", 1, "last", "epoch-1", "stock", 1, "run", process]
    loaded += ["begin_ms", 0, "end_ms", 2**42]
    run.redis.calls(["HSET", key(voucher, "voucher"), *loaded] for voucher in others)
    look(run, order, 1)
    run.postgres.sql(f"delete from seckill_voucher where id in ({','.join(others)})")
    holder.wait()
    run.redis.calls(["DEL", key(voucher, "voucher")] for voucher in others)


def forgotten_after_a_rebuild(run: Run) -> None:
    """An instance with accepted orders is stopped, Redis loses its data, another rebuilds; and time goes by."""
    holder = run.hold_orders(0.6)
    orders = [accepted(run, run.vouchers[0], f"waiting{n}") for n in range(20)]
    run.first.signal(signal.SIGSTOP)
    run.redis.call("FLUSHALL")
    holder.wait()
    wait_for("rebuilt", lambda: is_open(run, run.vouchers[0]))
    run.redis.call("HINCRBY", run.key("voucher"), "rebuilt_ms", -31000)  # the script's clock
    for order in orders:
        look(run, order, 1)
    run.first.signal(signal.SIGCONT)


# ---- what grows, and what is done all at once ----


def buyers_stay(run: Run) -> None:
    """A sale is over and all of it is settled: Redis need not know its buyers any more."""
    voucher = open_voucher(run, 200, end_s=2.0)
    buyers = crowd(run, [voucher], 1.2, 300, 300)
    buyers.join()
    left = (["XLEN", key(voucher, "journal")], ["EXISTS", key(voucher, "buyers")])
    over = lambda: run.redis.calls(left) == [0, 0]
    within(run, "the buyers of a sale that is over forgotten", over, 4)


MANY = 150


def rebuilt_at_once(run: Run) -> None:
    """Many vouchers are missing in Redis, and each statement takes a while: less than the patience with one, but more
    for one of each voucher. In good order all are done in six seconds."""
    run.stack.pg_proxy.delay_ms = 5  # each way
    vouchers = insert_vouchers(run, MANY, 10)
    run.vouchers += vouchers
    states = lambda: run.redis.calls(["HGET", key(voucher, "voucher"), "state"] for voucher in vouchers)
    within(run, f"{MANY} vouchers rebuilt", lambda: states() == ["open"] * MANY, 15)
    run.stack.pg_proxy.delay_ms = 0
    wait_for("rebuilt in the end", lambda: states() == ["open"] * MANY, 30)


SEEN = ("seen_meanwhile",)
NOT_FOUND = ("accepted_is_never_unknown",)
IMPATIENT = {"SECKILL_PG_TIMEOUT_MS": "700"}

ROWS = [
    Fault(
        "6h",
        "an instance with orders away long after a rebuild",
        forgotten_after_a_rebuild,
        units=2000,
        env={"SECKILL_BATCH_MAX": "8"},
        rebuilds=4,
        refused_202=20,
        unknown=0.3,
        known="M13",
        known_by=NOT_FOUND,
    ),
    Fault(
        "16c",
        "a voucher's row locked, another goes on",
        row_locked,
        units=3000,
        seconds=6.0,
        known="M10",
        known_by=SEEN,
    ),
    Fault(
        "16d",
        "a voucher's row locked, another is missing",
        recovery_held_up,
        instances=1,
        rate=0,
        rebuilds=4,
        unknown=0.3,
        known="M11",
        known_by=SEEN,
    ),
    Fault(
        "30d",
        "a pending order of a voucher older than 1,000",
        older_than_1000_others,
        rate=0,
        known="H4",
        known_by=NOT_FOUND,
    ),
    Fault(
        "30e",
        "150 vouchers rebuilt at once, by the impatient",
        rebuilt_at_once,
        proxied=True,
        rate=0,
        env=IMPATIENT,
        rebuilds=3 * MANY,
        unknown=0.9,
        known="M9",
        known_by=SEEN + ("rebuilds_are_few",),
        full=True,
    ),
    Fault(
        "43",
        "a dead letter's order, the sale over since yesterday",
        ended_yesterday,
        rate=50,
        known="H4",
        known_by=NOT_FOUND,
    ),
    Fault("44", "buyers of a sale that is over", buyers_stay, rate=0, known="H5", known_by=SEEN),
]
