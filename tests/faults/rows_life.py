"""The life of orders: they are paid, cancelled, refunded and expire while buyers race them, each other, rebuilds and
crashes: 34, 23d."""

from __future__ import annotations

import signal
import time

from crowd import Event
from driver import Run
from fault import PLAIN, Fault
from life import EXTEND_S, Habits, move, tell
from machine import Deadline
from rows_instances import at, killed_at
from rows_pairs import flushed, gone, pair
from rows_tools import accepted, buy, clock_env, in_background, key, kill, lock_row, open_voucher, release, restart
from rows_tools import set_clock, within
from stack import OPERATE_TOKEN, Broken, wait_for

TTL_S = 0.8  # SECKILL_LOCK_TTL_MS of the suite
IN_TIME_S = 3.0  # how late an order may expire: 2 s, plus slack for a busy machine
TAKEN_OVER_S = IN_TIME_S + TTL_S
SETTLED_S = 10.0
RETIRED_S = 14.0  # an idle voucher is checked at least every five seconds, and two checks are needed
BACK_S = 0.6  # a returned unit sells within 300 ms; plus slack for a busy machine
LIVELY = Habits(moves=1.0, keyed=0.3, limit=3, price=5, pay_within_s=2)
STEADY = Habits(moves=0.4, limit=2, price=5, pay_within_s=1)  # from the second second on orders expire continuously


def nothing(_run: Run) -> None:
    """The users' own actions are the fault."""


def status_of(run: Run, order: str) -> str:
    rows = run.postgres.sql(f"select status from voucher_order where id = '{order}'")
    return rows[0][0] if rows else ""


def expired(run: Run) -> int:
    return int(run.postgres.sql("select count(*) from voucher_order where status = 'expired'")[0][0])


def bought(run: Run, voucher: str, user: str, instance: int = 0, quantity: int = 1) -> Event:
    """A committed order. A link to a store may be coming back: asks again after a 503."""
    deadline = Deadline(3)
    while (event := buy(run, voucher, user, instance, quantity=quantity)).status not in (201, 202):
        if event.code == "ALREADY_ORDERED":  # the try before was carried out
            break
        if event.status != 503 or deadline.passed():
            raise Broken(f"{user} has no order: {event.status} {event.code}")
        time.sleep(0.05)
    wait_for("committed", lambda: status_of(run, event.order) != "")
    return event


def expect(run: Run, event: Event, status: int, code: str = "", state: str = "") -> Event:
    if (event.status, event.code) != (status, code) or (state and event.state != state):
        run.seen_meanwhile.append(f"{event.what} of {event.order}: {event.status} {event.code} {event.state}")
    return event


# ---- a rebuild, and crashes ----


def rebuilt_meanwhile(run: Run) -> None:
    until, n = time.monotonic() + 2.5, 0
    while time.monotonic() < until:
        n += 1
        run.reconcile(n % 2)
        time.sleep(0.1)


def killed_expiring(run: Run) -> None:
    """The other instance is paused until this one has the work, and back before it dies of it."""
    kill(run, 1)
    time.sleep(TTL_S + 0.5)
    run.stack.instances[1].run()
    killed_at(run)


def holders_killed(run: Run) -> None:
    """One instance after the other is killed: whichever expires orders, the other continues."""
    for number, one in enumerate(run.stack.instances):
        before = expired(run)
        kill(run, number)
        within(run, f"expiry goes on without {one.name}", lambda: expired(run) > before, TAKEN_OVER_S + 1)
        one.run()
        wait_for("back", one.ready)


def stopped_at(run: Run, point: str) -> None:
    wait_for(f"stopped at {point}", lambda: f"name={point} " in run.first.text())


def returned_twice(run: Run) -> None:
    """It stops after the return is committed and before Redis knows. The other instance completes it, and the user buys
    again. Then it continues, and completes the return once more."""
    voucher = run.vouchers[0]
    order = bought(run, voucher, "ann", quantity=2)
    asking = in_background(lambda: tell(run, move("cancel", order, 0), timeout=SETTLED_S + 5))
    stopped_at(run, "return.committed")
    within(run, "carried out by the other", lambda: not run.redis.call("HGET", key(voucher, "buyers"), "ann"), SETTLED_S)
    time.sleep(0.5)  # until the cached sold-out refusal has expired
    again = bought(run, voucher, "ann", 1, quantity=1)
    run.first.signal(signal.SIGCONT)
    asking.join()
    time.sleep(0.3)
    if (run.redis.call("HGET", key(voucher, "buyers"), "ann") or "")[:36] != again.order:
        run.seen_meanwhile.append("the order that its user bought since is gone from Redis")


def returned_under_an_old_epoch(run: Run) -> None:
    """It has noted the return and stops. Redis loses the note, and another instance begins a rebuild under a new epoch.
    The return is not executed under the old one."""
    voucher, second = run.vouchers[0], run.stack.instances[1]
    restart(second, {"SECKILL_FAILPOINTS": "rebuild.opening=stop"})
    order = bought(run, voucher, "ann", 0, quantity=2)
    asking = in_background(lambda: tell(run, move("cancel", order, 0), timeout=SETTLED_S + 5))
    stopped_at(run, "return.noted")
    run.redis.call("FLUSHALL")
    asks = in_background(lambda: run.buy("bob", 1, timeout=SETTLED_S))
    wait_for("a rebuild under way", lambda: "name=rebuild.opening " in second.text())
    run.first.signal(signal.SIGCONT)
    time.sleep(1.0)
    if status_of(run, order.order) != "unpaid":
        run.seen_meanwhile.append(f"returned under an old epoch: {status_of(run, order.order)}")
    second.signal(signal.SIGCONT)
    asks.join()
    asking.join()
    again = lambda: tell(run, move("cancel", order, 1)).status == 200  # its links are reconnecting
    within(run, "returned under the new epoch", again, SETTLED_S)
    within(run, "its units back", lambda: not run.redis.call("HGET", key(voucher, "buyers"), "ann"), SETTLED_S)


def stopped_expiring(run: Run) -> None:
    """It has found due orders and stops. The other instance expires them, and the units sell again. Then it continues
    with the orders found."""
    stopped_at(run, "expiry.found")
    before = expired(run)
    within(run, "expiry goes on without it", lambda: expired(run) > before, TAKEN_OVER_S + 1)
    time.sleep(1.0)
    run.first.signal(signal.SIGCONT)


def moved_when_retired(run: Run) -> None:
    """Redis has forgotten the buyers of an ended sale; its orders can still be moved."""
    voucher = open_voucher(run, 20, end_s=2.5, pay_within_s=0, limit=2)
    orders = [bought(run, voucher, f"ann{n}", n % 2, quantity=2) for n in range(4)]
    expect(run, tell(run, move("pay", orders[0], 0, reference="before", amount=2)), 200, state="paid")
    state = f"select state from seckill_voucher where id = {voucher}"
    within(run, "retired", lambda: run.postgres.sql(state) == [["retired"]], RETIRED_S)
    expect(run, tell(run, move("refund", orders[0], 1, restock=True)), 200, state="refunded")
    expect(run, tell(run, move("cancel", orders[1], 0)), 200, state="cancelled")
    expect(run, tell(run, move("cancel", orders[1], 1)), 200, state="cancelled")
    expect(run, tell(run, move("pay", orders[2], 0, reference="after", amount=2)), 200, state="paid")
    expect(run, tell(run, move("refund", orders[2], 1)), 200, state="refunded")
    expect(run, tell(run, move("pay", orders[3], 1, reference="kept", amount=2)), 200, state="paid")


def unpaid_when_it_ends(run: Run) -> None:
    """A sale ends, and is retired as soon as possible: unpaid orders still expire."""
    voucher = open_voucher(run, 20, end_s=2.5, pay_within_s=9)
    order = bought(run, voucher, "ann")
    within(run, "expired", lambda: status_of(run, order.order) == "expired", 9 + IN_TIME_S)


# ---- races whose both ends are due ----


def paid_while_it_expires(run: Run) -> None:
    """An order is found due and cannot be moved yet; meanwhile it is paid. It stays paid."""
    voucher = open_voucher(run, 20, pay_within_s=1, limit=3)
    order = bought(run, voucher, "ann", quantity=3)
    holder = lock_row(run, voucher, 20)
    waits = "select count(*) > 0 from pg_stat_activity where wait_event_type = 'Lock' and query like '%return_orders%'"
    within(run, "expiry at it", lambda: run.postgres.sql(waits) == [["t"]], 1 + IN_TIME_S)
    paid = tell(run, move("pay", order, 1, reference="in-time", amount=3))
    expect(run, paid, 200, state="paid")
    release(run, "begin; select from voucher_stock")
    holder.wait()
    time.sleep(1.0)
    if status_of(run, order.order) != "paid":
        run.seen_meanwhile.append(f"a paid order is {status_of(run, order.order)}")
    expect(run, tell(run, move("pay", order, 0, reference="in-time", amount=3)), 200, state="paid")
    payment = lambda: run.postgres.sql("select state from payment where reference = 'another'")
    for what, *answer, after in (  # a second payment is owed, and given back by itself
        ("pay", 409, "ALREADY_PAID", "", "to_refund"),
        ("refund", 200, "", "paid", "refunded"),
    ):
        for instance in range(2):
            expect(run, tell(run, move(what, order, instance, reference="another", amount=3)), *answer)
        if payment() != [[after]]:
            run.seen_meanwhile.append(f"a second payment after {what} is {payment()}")
    expect(run, tell(run, move("cancel", order, 1)), 409, "WRONG_STATE")


def extended_while_it_expires(run: Run) -> None:
    """An order is found due and cannot be moved yet; meanwhile it is extended. It expires at its new time."""
    voucher = open_voucher(run, 20, pay_within_s=2, extend_s=3)
    order, other = bought(run, voucher, "ann"), bought(run, voucher, "bob", 1)
    holder = lock_row(run, voucher, 20)
    waits = "select count(*) > 0 from pg_stat_activity where wait_event_type = 'Lock' and query like '%return_orders%'"
    within(run, "expiry at it", lambda: run.postgres.sql(waits) == [["t"]], 2 + IN_TIME_S)
    for instance in range(2):
        expect(run, tell(run, move("extend", order, instance, reference="coming")), 200, state="unpaid")
        expect(run, tell(run, move("extend", order, instance, reference="another"), signs=True), 409, "ALREADY_EXTENDED")
    release(run, "begin; select from voucher_stock")
    holder.wait()
    within(run, "the other one expires", lambda: status_of(run, other.order) == "expired", IN_TIME_S)
    expect(run, tell(run, move("extend", other, 0, reference="late")), 409, "WRONG_STATE")
    if status_of(run, order.order) != "unpaid":
        run.seen_meanwhile.append(f"an extended order is {status_of(run, order.order)}")
    within(run, "expired later", lambda: status_of(run, order.order) == "expired", EXTEND_S + IN_TIME_S)
    expect(run, tell(run, move("extend", order, 1, reference="coming")), 200, state="expired")


def held_over_restarts(run: Run) -> None:
    """An operator holds expiry, of one voucher and then of all. All instances restart meanwhile. Nothing expires
    before the release."""
    voucher = open_voucher(run, 20, pay_within_s=1)
    token = {"Authorization": f"Bearer {OPERATE_TOKEN}"}
    for n, path in enumerate((f"/admin/vouchers/{voucher}/", "/admin/")):
        status, document = run.stack.instances[n].ask("POST", f"{path}hold-expiry", headers=token)
        if status != 200 or not document["held"]:
            raise Broken(f"expiry is not held: {status} {document}")
        order = bought(run, voucher, f"ann{n}", n)
        for instance in run.stack.instances:
            restart(instance)
        time.sleep(1 + IN_TIME_S)
        troubles = run.stack.instances[1].ask("GET", "/admin/troubles", headers=token)[1]["troubles"]
        if status_of(run, order.order) != "unpaid" or {one["what"] for one in troubles} != {"EXPIRY_HELD"}:
            run.seen_meanwhile.append(f"held, and the order is {status_of(run, order.order)}; troubles: {troubles}")
        if (status := run.stack.instances[n].ask("POST", f"{path}release-expiry", headers=token)[0]) != 200:
            raise Broken(f"expiry is not released: {status}")
        within(run, "expired", lambda: status_of(run, order.order) == "expired", 2 + IN_TIME_S)


def paid_after_it_expired(run: Run) -> None:
    """The payment is recorded, to be refunded, and the order stays expired; its unit belongs to another user by now."""
    voucher = open_voucher(run, 1, pay_within_s=1)
    order = bought(run, voucher, "ann")
    within(run, "expired", lambda: status_of(run, order.order) == "expired", 1 + IN_TIME_S)
    within(run, "sold again", lambda: buy(run, voucher, "bob", 1).outcome == "ok", SETTLED_S)
    expect(run, tell(run, move("pay", order, 1, reference="late", amount=1), signs=True), 200, state="expired")
    expect(run, tell(run, move("pay", order, 0, reference="late", amount=1)), 200, state="expired")
    expect(run, tell(run, move("cancel", order, 0)), 409, "WRONG_STATE")
    payment = lambda: run.postgres.sql("select state from payment where reference = 'late'")
    if payment() != [["to_refund"]]:
        run.seen_meanwhile.append(f"a payment that came too late is {payment()}")
    expect(run, tell(run, move("refund", order, 1)), 200, state="expired")
    if payment() != [["refunded"]]:
        run.seen_meanwhile.append(f"a payment that was given back is {payment()}")


def refunded_again(run: Run) -> None:
    """A refund is repeated after another payment. The shop has not returned that one: it stays to be refunded."""
    voucher = open_voucher(run, 4, limit=1)
    states = "select string_agg(reference || ' ' || state, ', ' order by reference) from payment where reference like '{}%'"

    def must_be(user: str, expected: str) -> None:
        found = run.postgres.sql(states.format(user))
        if found != [[expected]]:
            run.seen_meanwhile.append(f"payments of {user}: {found}, not {expected}")

    for n, user in enumerate(("ann", "bob")):  # one order that was paid, one that was cancelled first
        order = bought(run, voucher, user)
        if user == "bob":
            expect(run, tell(run, move("cancel", order, 0)), 200, state="cancelled")
        first, later = ({"reference": f"{user}-{which}", "amount": 1} for which in (1, 2))
        state = "cancelled" if user == "bob" else "refunded"
        tell(run, move("pay", order, n, **first))
        for instance in range(2):
            expect(run, tell(run, move("refund", order, instance)), 200, state=state)
            expect(run, tell(run, move("pay", order, instance, **later)), 200, state=state)
        expect(run, tell(run, move("refund", order, 0)), 200, state=state)
        expect(run, tell(run, move("refund", order, 1, reference=f"{user}-1")), 200, state=state)
        must_be(user, f"{user}-1 refunded, {user}-2 to_refund")
        expect(run, tell(run, move("refund", order, 1, reference="eve-1")), 409, "UNKNOWN_PAYMENT")
    expect(run, tell(run, move("refund", order, 0, reference="bob-2")), 200, state="cancelled")  # ann's stays
    must_be("bob", "bob-1 refunded, bob-2 refunded")


def pending_is_not_moved(run: Run) -> None:
    """An order that PostgreSQL does not know yet: a move of it is never 404, and never executed."""
    voucher = run.vouchers[0]
    for instance in range(2):
        bought(run, voucher, f"early{instance}", instance)  # after the first answer it knows the epoch
    holder = run.hold_orders(20)
    order = accepted(run, voucher, "ann")
    for n, what in enumerate(("pay", "cancel", "refund", "pay", "cancel")):
        expect(run, tell(run, move(what, order, n % 2, reference="early", amount=1)), 409, "PENDING")
    release(run)
    holder.wait()
    wait_for("committed", lambda: status_of(run, order.order) == "unpaid")
    expect(run, tell(run, move("cancel", order, 1)), 200, state="cancelled")


def sold_again_everywhere(run: Run) -> None:
    """All units are sold, and all instances refuse from memory. A unit returns: it sells at each of them, at once, and
    its former owner may buy again."""
    count, slow = len(run.stack.instances), []
    for n in range(2 * count):
        voucher = open_voucher(run, 2, limit=2)
        order = bought(run, voucher, f"owner{n}", n % count, quantity=2)
        for instance in range(count):
            expect(run, buy(run, voucher, f"early{n}-{instance}", instance), 409, "SOLD_OUT")
        expect(run, tell(run, move("cancel", order, (n + 1) % count)), 200, state="cancelled")
        bound, tries = Deadline(BACK_S), 0
        buyer = f"owner{n}" if n >= count else f"next{n}"
        while (event := buy(run, voucher, buyer, n % count, quantity=2)).outcome != "ok" and tries < 200:
            tries += 1
            time.sleep(0.01)
        if event.order == order.order or event.outcome != "ok" or bound.passed():
            slow.append(f"{buyer} at instance {n % count}: {event.status} {event.code}, {bound.spent_s():.2f} s")
    run.seen_meanwhile += slow


def asked_again(run: Run) -> None:
    """Repeats under one key return the same order: while it is pending, when it is committed, after it was cancelled,
    and after Redis has lost everything. They never make another one."""
    voucher = open_voucher(run, 20, limit=3)
    holder = run.hold_orders(20)
    first = buy(run, voucher, "ann", 0, later=True, quantity=2, key="wish")

    def repeats(when: str) -> None:
        for instance in range(2):
            again = buy(run, voucher, "ann", instance, quantity=2, key="wish")
            at_once = buy(run, voucher, "ann", instance, later=True, quantity=2, key="wish")
            for event in (again, at_once):
                if event.status not in (201, 202) or event.order != first.order:
                    run.seen_meanwhile.append(f"{when}: {event.status} {event.code} {event.order}, not {first.order}")
        other = buy(run, voucher, "ann", 0, quantity=1, key="wish")
        expect(run, other, 422, "IDEMPOTENCY_KEY_REUSED")

    repeats("pending")
    release(run)
    holder.wait()
    wait_for("committed", lambda: status_of(run, first.order) == "unpaid")
    repeats("committed")
    expect(run, tell(run, move("cancel", first, 1)), 200, state="cancelled")
    repeats("cancelled")
    run.redis.call("FLUSHALL")
    within(run, "rebuilt", lambda: buy(run, voucher, "bob", 0).status == 201, SETTLED_S)
    repeats("rebuilt")
    for number, wish in enumerate(("one", "two")):
        event = buy(run, voucher, "eve", number, key=wish)
        wait_for("committed", lambda: status_of(run, event.order) == "unpaid")
        expect(run, tell(run, move("cancel", event, number)), 200, state="cancelled")
    buy(run, voucher, "eve", 0, key="one")  # the older of the two ended orders
    run.redis.call("DEL", key(voucher, "repeats"))  # no audit notices: PostgreSQL knows the keys
    buy(run, voucher, "eve", 1, key="two")


SLOW = """
create function sleep_a_while() returns trigger language plpgsql as $$ begin
  if new.reference = 'slow' then perform pg_sleep(1.2); end if; return new; end $$;
create trigger sleep_a_while after insert on payment for each row execute function sleep_a_while()
"""


def told_late(run: Run) -> None:
    """A payment has a long transaction, while others begin later and end earlier: no reader of the feed misses it."""
    voucher = run.vouchers[0]
    orders = [bought(run, voucher, f"ann{n}", n % 2) for n in range(12)]
    run.postgres.sql(SLOW)
    try:
        slow = in_background(lambda: tell(run, move("pay", orders[0], 0, reference="slow", amount=1)))
        time.sleep(0.2)
        for n, order in enumerate(orders[1:]):  # at the other instance: there payments do not wait for each other
            expect(run, tell(run, move("pay", order, 1, reference=f"quick{n}", amount=1)), 200, state="paid")
            run.feed.catch_up(1)
        slow.join()
    finally:
        run.postgres.sql("drop trigger sleep_a_while on payment; drop function sleep_a_while()")


# ---- the stores, and the clocks ----


def flushed_expiring(run: Run) -> None:
    wait_for("expiry", lambda: expired(run) > 0)
    flushed(run)


def clocks_differ(run: Run) -> None:
    """Redis's clock is ahead of PostgreSQL's, then behind: nothing expires meanwhile, the log reports it, and expiry
    continues when the clocks agree."""
    file = run.stack.folder / "clock"
    run.redis.preload = clock_env(run, file)
    run.redis.end(signal.SIGTERM)
    run.redis.run(*run.stack.redis_settings)
    run.redis.preload = {}
    voucher = open_voucher(run, 500, pay_within_s=1)
    pauses = lambda: sum(one.text().count("expiry pauses") for one in run.stack.instances)
    for n, seconds in enumerate((10, -10)):
        before, seen = pauses(), expired(run)
        bought(run, voucher, f"ann{n}")
        within(run, "expiry", lambda: expired(run) > seen, 1 + IN_TIME_S + 5)
        set_clock(file, seconds)
        within(run, f"said that expiry pauses at {seconds} s", lambda: pauses() > before, SETTLED_S)
        late = f"late{n}"
        within(run, "sells all the same", lambda: buy(run, voucher, late, 1).status == 201, SETTLED_S)
        time.sleep(1 + IN_TIME_S)
        rows = run.postgres.sql(f"select status from voucher_order where user_id = '{late}'")
        if rows != [["unpaid"]]:
            run.seen_meanwhile.append(f"with the clocks {seconds} s apart an order is {rows}")
        seen = expired(run)
        set_clock(file, 0)
        within(run, "expiry goes on", lambda: expired(run) > seen, SETTLED_S)


STOPPED = {"SECKILL_REDIS_TIMEOUT_MS": "15000", "SECKILL_PG_TIMEOUT_MS": "15000"}  # it continues with its data


def stop(point: str) -> dict[str, str]:
    return {"SECKILL_FAILPOINTS": f"{point}=stop"} | STOPPED


RETIRED_AT_ONCE = {"SECKILL_RETIRE_AFTER_MS": "0"}

ROWS = [
    Fault(
        "23d", "Redis's clock 10 s ahead and behind: expiry pauses", clocks_differ,
        rate=0, rebuilds=8, unknown=0.9,
    ),
    Fault(
        "34a", "paid, cancelled, refunded, expired and bought at once", nothing,
        habits=LIVELY, spread=True, rate=250, late_s=IN_TIME_S, short=True,
    ),
    Fault(
        "34b", "the same, amid one rebuild after the other", rebuilt_meanwhile,
        habits=LIVELY, rate=250, late_s=IN_TIME_S + 2, rebuilds=100, unknown=0.7, refused_202=5,
    ),
    Fault(
        "34c", "killed: return noted", killed_at,
        habits=LIVELY, first_env=at("return.noted", 10), late_s=TAKEN_OVER_S, unknown=0.2,
    ),
    Fault(
        "34d", "killed: return committed, not settled", killed_at,
        habits=LIVELY, first_env=at("return.committed", 10), late_s=TAKEN_OVER_S, unknown=0.2, short=True,
    ),
    Fault(
        "34f", "killed: orders found that are due", killed_expiring,
        habits=STEADY, first_env=at("expiry.found"), late_s=2 * TAKEN_OVER_S, seconds=5.0, unknown=0.5,
    ),
    Fault(
        "34g", "who lets orders expire killed, one after the other", holders_killed,
        habits=STEADY, late_s=TAKEN_OVER_S + 1, seconds=9.0, users=2000, rate=200, units=3000, unknown=0.4,
    ),
    Fault(
        "34j", "FLUSHALL amid steady expiry", flushed_expiring,
        habits=STEADY, seconds=5.0, refused_202=25, rebuilds=3, unknown=0.2,
    ),
    Fault(
        "34k", "a return carried out twice, its user buys in between", returned_twice,
        habits=Habits(limit=3), first_env=stop("return.committed"), rate=0, units=50, unknown=0.9,
    ),
    Fault(
        "34l", "a return of an older epoch, a rebuild under way", returned_under_an_old_epoch,
        habits=Habits(limit=3), first_env=stop("return.noted"), rate=0, units=50, rebuilds=4, unknown=0.9,
    ),
    Fault("34m", "paid while it expires", paid_while_it_expires, habits=PLAIN, rate=0, unknown=0.9),
    Fault("34n", "paid after it expired", paid_after_it_expired, habits=PLAIN, rate=0, unknown=0.9),
    Fault("34o", "moves of an order that is pending", pending_is_not_moved, habits=PLAIN, rate=0, unknown=0.9),
    Fault("34p", "a unit of a sold-out voucher returns", sold_again_everywhere, habits=PLAIN, rate=0, unknown=0.9, alone=True),
    Fault(
        "34q", "the same Idempotency-Key, whatever happens", asked_again,
        habits=PLAIN, rate=0, rebuilds=4, unknown=0.9,
    ),
    Fault("34r", "the feed, while a payment takes long to commit", told_late, habits=PLAIN, rate=0, unknown=0.9),
    Fault(
        "34s", "orders of a sale that is retired", moved_when_retired,
        habits=PLAIN, rate=0, env=RETIRED_AT_ONCE, rebuilds=2, unknown=0.9,
    ),
    Fault(
        "34t", "who lets orders expire stopped beyond its TTL", stopped_expiring,
        habits=STEADY, first_env=stop("expiry.found"), late_s=TAKEN_OVER_S + 1, vouchers=6, units=60, seconds=6.0, unknown=0.4,
    ),
    Fault(
        "34u", "FLUSHALL, and an instance killed, amid returns", pair(gone, flushed),
        habits=LIVELY, seconds=2.5, units=2000, refused_202=30, rebuilds=4, unknown=0.4,
    ),
    Fault(
        "34v", "an unpaid order of a sale that has ended", unpaid_when_it_ends,
        habits=PLAIN, rate=0, env=RETIRED_AT_ONCE, rebuilds=4, unknown=0.9,
    ),
    Fault("34w", "a refund repeated after a later payment", refunded_again, habits=PLAIN, rate=0, unknown=0.9),
    Fault("34x", "extended while it expires", extended_while_it_expires, habits=PLAIN, rate=0, unknown=0.9, short=True),
    Fault("34y", "expiry held by an operator, instances restarted", held_over_restarts, habits=PLAIN, rate=0, unknown=0.9, rebuilds=4),
]
