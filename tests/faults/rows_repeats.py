"""What users leave in Redis by endless ordering and cancelling, and what is known of them afterwards: 59."""

from __future__ import annotations

import threading
import time

from crowd import Event
from driver import Run
from fault import PLAIN, Fault
from life import move, tell
from machine import Deadline
from rows_tools import buy, counter, in_background, key, terms
from stack import Broken, wait_for

ACCOUNTS, THREADS, BOUND, UNITS = 64, 8, 5, 32  # BOUND: orders_per_user
SHORT_S, FULL_S, LATEST_S = 6.0, 60.0, 60.0
# Memory in Redis: a voucher by itself, a buyer, a user at the bound, an ended order with a key.
VOUCHER_B, BUYER_B, ENDED_B, KEYED_B = 8192, 150, 100, 160
PARTS = ("voucher", "buyers", "journal", "repeats", "ended")
STRANGERS, FROM_MEMORY, ASKED_S = 100, 0.7, 15.0


def orders_of(run: Run, voucher: str) -> tuple[int, int]:
    """Users at the bound, and the most orders of any user."""
    ended = "status in ('cancelled', 'expired', 'refunded')"
    rows = run.postgres.sql(
        f"select count(*) filter (where n >= {BOUND}), coalesce(max(n), 0) from (select count(*) as n from voucher_order"
        f" where voucher_id = {voucher} and {ended} group by user_id) own"
    )
    return int(rows[0][0]), int(rows[0][1])


def memory_of(run: Run, voucher: str) -> int:
    used = (run.redis.call("MEMORY", "USAGE", key(voucher, part), "SAMPLES", "0") for part in PARTS)
    return sum(int(one or 0) for one in used)


def refused_from_memory(run: Run) -> int:
    """By all instances together, since their start."""
    return sum(counter(one, "seckill_refused_from_memory_total") for one in run.stack.instances)


def own_voucher(run: Run, units: int) -> str:
    """The crowd does not know it until it is sold out."""
    status, document = run.stack.instances[-1].ask("POST", "/admin/vouchers", body=terms(run, units))
    if status != 201:
        raise Broken(f"no voucher: {status} {document}")
    return document["id"]


def answered(run: Run, voucher: str, user: str, instance: int) -> Event:
    """The voucher may be loading or reopening."""
    deadline = Deadline(ASKED_S)
    while (event := run.definite(lambda: buy(run, voucher, user, instance))).code == "LOADING":
        if deadline.passed():
            raise Broken(f"no answer to {user}: {event.status} {event.code}")
        time.sleep(0.05)
    return event


def order(run: Run, voucher: str, user: str, instance: int) -> Event:
    before = len(run.history)
    event = answered(run, voucher, user, instance)
    was_unknown = any(e.user == user and e.code == "UNAVAILABLE" for e in run.history[before:])
    if event.status not in (201, 202) and not (was_unknown and event.code == "ALREADY_ORDERED"):  # that try has made it
        raise Broken(f"no order of {user}: {event.status} {event.code}")
    return event


def give_back(run: Run, bought: Event, instance: int) -> None:
    while tell(run, move("cancel", bought, instance)).status != 200:
        time.sleep(0.02)


def order_and_give_back(run: Run, voucher: str, thread: int, ending: threading.Event) -> None:
    """Each order has its own key. A refused user continues anyway."""
    count, n = len(run.stack.instances), 0
    while not ending.is_set():
        for account in range(thread, ACCOUNTS, THREADS):
            user, instance = f"again{account}", (account + n) % count
            event = run.definite(lambda: buy(run, voucher, user, instance, key=f"{user}-{n}"))  # the key: the same order
            if event.status in (201, 202):
                give_back(run, event, (instance + 1) % count)
            elif event.code not in ("TOO_MANY_ORDERS", "LOADING"):
                run.seen_meanwhile.append(f"{user}: {event.status} {event.code}")
        n += 1


def sell_out(run: Run, voucher: str, units: int) -> None:
    for n in range(units):
        order(run, voucher, f"rest{n}", n % len(run.stack.instances))
    run.vouchers.append(voucher)


def refuse_from_memory(run: Run, voucher: str) -> bool:
    """Whether most of this many strangers are. A refusal is cached for 200 ms, then read again."""
    before = refused_from_memory(run)
    for n in range(STRANGERS):
        event = run.definite(lambda: buy(run, voucher, f"stranger{n}", n % len(run.stack.instances)))
        if event.code not in ("SOLD_OUT", "LOADING"):
            run.seen_meanwhile.append(f"stranger{n}: {event.status} {event.code}")
    return refused_from_memory(run) - before >= FROM_MEMORY * STRANGERS


def without_end(run: Run) -> None:
    """Accounts order and cancel for as long as they may, with their own keys."""
    voucher, ending, began = own_voucher(run, UNITS), threading.Event(), time.monotonic()
    threads = [in_background(lambda n=n: order_and_give_back(run, voucher, n, ending)) for n in range(THREADS)]
    try:
        time.sleep(FULL_S if run.terms.full else SHORT_S)
        while orders_of(run, voucher)[0] < ACCOUNTS and time.monotonic() < began + LATEST_S:
            time.sleep(0.2)
    finally:
        ending.set()
        for thread in threads:
            thread.join()
    users, most = orders_of(run, voucher)
    if users < ACCOUNTS:
        raise Broken(f"{users} of {ACCOUNTS} accounts had {BOUND} orders")
    entries, used = run.redis.call("HLEN", key(voucher, "repeats")), memory_of(run, voucher)
    allowed = VOUCHER_B + ACCOUNTS * (BUYER_B + ENDED_B + BOUND * KEYED_B)
    if most > BOUND or int(entries) > ACCOUNTS * BOUND or used > allowed:
        run.seen_meanwhile.append(f"an account had {most} orders; {entries} are kept, in {used} bytes of {allowed}")
    sell_out(run, voucher, UNITS)
    wait_for("refusals from memory", lambda: refuse_from_memory(run, voucher), ASKED_S)


def counted_after_a_rebuild(run: Run) -> None:
    """Users who have had all orders are refused as before, at each instance, and one with an order left may have it."""
    voucher, count = own_voucher(run, UNITS), len(run.stack.instances)
    for user, orders in (("all", BOUND), ("most", BOUND - 1)):
        for n in range(orders):
            give_back(run, order(run, voucher, user, n % count), n % count)
    for n in range(count):
        path = f"/admin/vouchers/{voucher}/reconcile"
        wait_for("reconciled", lambda: run.stack.instances[n].ask("POST", path)[0] == 200)
        for instance in range(count):
            event = answered(run, voucher, "all", instance)
            if event.code != "TOO_MANY_ORDERS":
                run.seen_meanwhile.append(f"after a rebuild: {event.status} {event.code}")
    order(run, voucher, "most", 0)
    run.vouchers.append(voucher)


ROWS = [
    Fault(
        "59a", "64 accounts order and give back without end", without_end,
        env={"SECKILL_METRICS_OPEN": "yes"}, orders_most=BOUND,
        habits=PLAIN, rate=60, seconds=12.0, short=True,
    ),
    Fault(
        "59b", "users who have had all orders, after a rebuild", counted_after_a_rebuild,
        orders_most=BOUND, habits=PLAIN, rate=60, rebuilds=2, unknown=0.3,
    ),
]
