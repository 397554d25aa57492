"""Checks orders after they were placed: their moves, payments, expiry, and repeated requests. Each assertion is a
function of a World and returns complaints."""

from __future__ import annotations

from collections import defaultdict

from answers import KEY_REASON, MARK_S
from crowd import REFUSALS, Event
from world import ENDED, FORGIVEN_S, LIVE, World

# A copy of order_move: a move added there must be added here, with its meaning.
ALLOWED = {("unpaid", "paid"), ("unpaid", "cancelled"), ("unpaid", "expired"), ("paid", "refunded")}
# The final states in which a refused cancel is justified.
NOT_CANCELLED = {"paid", "refunded", "expired", "refused"}
TO_REFUND = "PAYMENT_TO_REFUND"  # the reason in an event for a payment of an ended order, or a second one of a paid order


def paths(world: World) -> dict[str, list[str]]:
    """The states of each order in sequence; events that only record something are left out."""
    found: dict[str, list[str]] = defaultdict(lambda: ["unpaid"])
    refused = {order.id for order in world.orders().values() if order.status == "refused"}
    for move in world.moves:
        path = found[move.order]
        if move.status != path[-1] and not (move.order in refused and move.status == "refused"):
            path.append(move.status)
    return found


def moves_are_allowed(world: World) -> list[str]:
    """The events form a path that the table of moves allows, and it ends in the order's state."""
    found, complaints = paths(world), []
    for order in world.orders().values():
        path = found[order.id]
        if any(step not in ALLOWED for step in zip(path, path[1:])):
            complaints.append(f"{order.id} went {' -> '.join(path)}")
        if order.status != "refused" and path[-1] != order.status:
            complaints.append(f"{order.id} is {order.status}, and its events end with {path[-1]}")
        if order.status == "refused" and len(path) > 1:
            complaints.append(f"{order.id} was refused and is said to have become {path[-1]}")
    unknown = found.keys() - world.orders().keys()
    return complaints + [f"events of {order}, which is no order" for order in sorted(unknown)]


def ends_were_asked_for(world: World) -> list[str]:
    """Orders move by themselves only when due, and a definitely rejected move did not happen."""
    asked: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in world.asked("pay", "cancel", "refund"):
        asked[event.what, event.order].append(event)
    orders, complaints = world.orders(), []
    for move in world.moves:
        order = orders.get(move.order)
        if order is None or (move.status == order.status == "refused"):
            continue
        if move.status == "expired":
            if not order.due or move.at < order.due - FORGIVEN_S:
                complaints.append(f"{order.id} expired {order.due - move.at:.2f} s before its time")
            continue
        what = {"paid": "pay", "cancelled": "cancel", "refunded": "refund"}.get(move.status)
        if what and not any(event.outcome != "refused" for event in asked[what, order.id]):
            complaints.append(f"{order.id} became {move.status}, and nobody asked for it in earnest")
    for order in orders.values():
        restocks = {event.restock for event in asked["refund", order.id] if event.outcome != "refused"}
        if order.status == "refunded" and restocks and (order.reason == "RESTOCKED") not in restocks:
            complaints.append(f"{order.id} was refunded as {order.reason}, asked was restock {restocks}")
    return complaints


def moves_answered_are_done(world: World) -> list[str]:
    """Each 200 of cancel, pay and refund."""
    orders, complaints, seconds = world.orders(), list(world.told_wrong["moves_answered_are_done"]), seconds_of(world)
    payments = {payment.reference: payment for payment in world.payments}
    for event in world.asked("pay", "cancel", "refund"):
        order = orders.get(event.order)
        if event.status != 200:
            continue
        if order is None:
            complaints.append(f"{event.what} of {event.order} answered 200, and there is no such order")
        elif event.what == "refund" and event.reference in seconds:
            if event.reference in payments and payments[event.reference].state != "refunded":
                complaints.append(f"refund of {event.reference} answered 200, and it is owed")
        elif event.what == "refund" and (
            order.status in ("unpaid", "paid")
            or any(p.order == order.id and p.state == "accepted" for p in world.payments)
        ):
            complaints.append(f"refund of {order.id} answered 200, and it is {order.status}")
        elif event.what == "pay" and event.reference in payments:
            complaints += _paid(event, order, payments[event.reference])
    return complaints


def _paid(event: Event, order, payment) -> list[str]:
    if event.state == "paid" and order.status not in ("paid", "refunded"):
        return [f"{order.id} was answered as paid, and is {order.status}"]
    if event.state in ENDED | {"refused"} and payment.state == "accepted":
        return [f"{order.id} was answered as {event.state}, and its payment is {payment.state}"]
    return []


def refusals_of_moves_are_true(world: World) -> list[str]:
    """A move rejected for the order's state was rejected rightly; and a user's own order is never unknown."""
    orders, complaints = world.orders(), []
    paid: dict[str, float] = {}  # since when it was known to be
    for event in world.asked("pay"):
        if event.status == 200 and event.state == "paid":
            paid[event.order] = min(event.ended, paid.get(event.order, event.ended))
    for event in world.asked("pay", "cancel", "refund"):
        order = orders.get(event.order)
        if order is None:
            continue
        was_paid = paid.get(order.id, event.began) < event.began
        if event.code == "WRONG_STATE" and (
            (event.what == "cancel" and order.status not in NOT_CANCELLED) or (event.what == "refund" and was_paid)
        ):
            complaints.append(f"{event.what} of {order.id}: WRONG_STATE, and it is {order.status}")
        if event.code == "ALREADY_PAID" and order.status not in ("paid", "refunded"):
            complaints.append(f"{order.id}: ALREADY_PAID, and it is {order.status}")
        if event.status == 404 and event.user == order.user:
            complaints.append(f"{event.what} of {order.id}, which is {event.user}'s: 404")
    return complaints


def seconds_of(world: World, since: float = 0.0) -> set[str]:
    """Payments that were refused because their order was paid."""
    return {event.reference for event in world.asked("pay") if event.code == "ALREADY_PAID" and event.began >= since}


def payments_are_accounted_for(world: World) -> list[str]:
    """An accepted payment belongs to a paid order, one for each; all others to an ended order, or they are second ones,
    each of which is recorded."""
    orders, complaints = world.orders(), []
    prices = {order.id: order.quantity * v.price for v in world.vouchers.values() for order in v.orders}
    seconds = seconds_of(world)
    asked = {event.reference for event in world.asked("pay") if event.outcome != "refused"} | seconds
    may_be_second = seconds | {event.reference for event in world.asked("pay") if event.outcome == "unknown"}
    for reference in sorted(seconds_of(world, world.migrated_at) - {one.reference for one in world.payments}):
        complaints.append(f"payment {reference} was ALREADY_PAID, and is not recorded")
    paid = [move.order for move in world.moves if move.status == "paid"]
    accepted: dict[str, int] = defaultdict(int)
    for one in world.payments:
        order = orders.get(one.order)
        if order is None:
            complaints.append(f"payment {one.reference} is for {one.order}, which is no order")
            continue
        if one.state == "accepted":
            accepted[order.id] += 1
        if (one.state == "accepted") and (order.status != "paid" or one.amount != prices[order.id]):
            complaints.append(f"payment {one.reference} of {one.amount} is accepted, its order {order.status}")
        is_kept = order.status == "unpaid" or (order.status == "paid" and one.reference not in may_be_second)
        if one.state == "to_refund" and is_kept:
            complaints.append(f"payment {one.reference} is to be given back, its order {order.status}")
        if one.state == "refunded" and is_kept:
            complaints.append(f"payment {one.reference} was given back, its order is {order.status}")
        if one.reference not in asked:
            complaints.append(f"payment {one.reference} is noted, and nobody asked for it in earnest")
    for order in orders.values():
        if order.status == "paid" and (accepted[order.id] != 1 or order.id not in paid):
            complaints.append(f"{order.id} is paid by {accepted[order.id]} payments")
    return complaints


def refunds_settle_what_they_name(world: World) -> list[str]:
    """A payment is refunded by a refund naming it, or, if recorded before, by the order's first refund. Second payments of
    a paid order only by name."""
    named = {(e.order, e.reference) for e in world.asked("refund") if e.reference and e.outcome != "refused"}
    early: set[tuple[str, float]] = set()  # payments recorded before a refund; one has the time of its event
    noted: dict[str, set[tuple[str, float]]] = defaultdict(set)
    refunded_once: set[str] = set()
    now: dict[str, str] = defaultdict(lambda: "unpaid")
    for move in world.moves:
        if now[move.order] == move.status == "paid":
            continue  # a second payment came, or was given back
        if move.status == "paid" or move.why == TO_REFUND:
            noted[move.order].add((move.order, move.at))
        elif move.status in ("refunded", now[move.order]) and move.order not in refunded_once:
            refunded_once.add(move.order)
            early |= noted[move.order]
        now[move.order] = move.status
    return [
        f"payment {one.reference} is refunded, and no refund of {one.order} can have settled it"
        for one in world.payments
        if one.state == "refunded" and (one.order, one.reference) not in named and (one.order, one.at) not in early
    ]


def extensions_are_answered(world: World) -> list[str]:
    """An order is extended once, by somebody who asked for it; and whoever was told so, or that another was faster, was
    told the truth."""
    complaints, asked = [], defaultdict(set)
    by = dict(world.extended)
    for event in world.asked("extend"):
        if event.outcome != "refused":
            asked[event.order].add(event.reference)
        if event.status == 200 and by.get(event.order) != event.reference:
            complaints.append(f"{event.order} was extended for {event.reference}, and is so for {by.get(event.order)}")
        if event.code == "ALREADY_EXTENDED" and by.get(event.order, event.reference) == event.reference:
            complaints.append(f"{event.order}: ALREADY_EXTENDED, and it is so for {by.get(event.order)}")
    for order, reference in world.extended:
        if reference not in asked[order]:
            complaints.append(f"{order} was extended for {reference}, and nobody asked for it in earnest")
    if len(by) < len(world.extended):
        complaints.append(f"{len(world.extended)} extensions of {len(by)} orders")
    return complaints


def nothing_is_overdue(world: World) -> list[str]:
    return [f"{len(world.overdue)} orders should have expired, as {world.overdue[0]}"] if world.overdue else []


def expiry_is_in_time(world: World) -> list[str]:
    """Also during the fault, as far as its row sets a limit."""
    orders = world.orders()
    lateness: dict[str, float] = {}  # later events of an order are about a payment that arrived
    for move in world.moves:
        if move.status == "expired" and move.order in orders:
            due = orders[move.order].due
            lateness.setdefault(move.order, move.at - due - world.delays.between_s(due, move.at))
    late = {order: seconds for order, seconds in lateness.items() if world.late_s and seconds > world.late_s}
    if not late:
        return []
    worst = max(late, key=late.get)
    return [f"{len(late)} of {len(lateness)} expired late, {worst} by {late[worst]:.1f} s, {world.late_s} s at most"]


def keys_made_one_order(world: World) -> list[str]:
    """The same Idempotency-Key gets the first answer again, whatever happened to the order, and makes no other order. A
    202 given before PostgreSQL was queried may end as refused. Where Redis may lose grants, the user of an accepted order
    may buy another one, which the repeat finds, and end it before the first is granted again."""
    complaints, orders = [], world.orders()
    rows: dict[tuple[str, str, str], int] = defaultdict(int)
    for voucher in world.vouchers.values():
        for order in voucher.orders:
            if order.key and order.status != "refused":
                rows[voucher.id, order.user, order.key] += 1
    complaints += [f"{n} orders of {who[1]} under one key" for who, n in rows.items() if n > 1]
    lasting = {order.id for order in orders.values() if order.status != "refused"}
    first: dict[tuple[str, str, str], Event] = {}
    written: dict[str, float] = {}  # since when an order was known to be in PostgreSQL
    for event in world.history:
        if event.status == 201 or event.state in LIVE | ENDED:
            written[event.order] = min(event.ended, written.get(event.order, event.ended))
    keyed = sorted((e for e in world.buys() if e.key), key=lambda event: event.ended)
    for event in keyed:
        if event.status in (201, 202) and event.order in lasting:
            first.setdefault((event.voucher, event.user, event.key), event)
    for event in keyed:
        one = first.get((event.voucher, event.user, event.key))
        if one is None or event.began <= one.ended or event.outcome == "unknown":
            continue
        own = event.code == "ALREADY_ORDERED" and event.order == one.order
        if (event.code == "ENDED" or own) and world.vouchers[event.voucher].retired:
            continue  # a key counts for a day, and by default no voucher is retired sooner
        said, named = f"{event.status} {event.code} {event.order}", orders.get(event.order)
        refused = event.status == 202 and named and named.reason == KEY_REASON
        may_be_lost = world.refused_most > 0 and written.get(one.order, event.began) >= event.began
        other = event.code == "ALREADY_ORDERED" and named and named.status in ENDED | {"refused"}
        if refused or (may_be_lost and other):
            continue
        late_s = world.delays.between_s(one.ended - MARK_S, event.began)
        if event.code in REFUSALS and event.began <= one.ended + MARK_S + late_s:
            continue  # by an instance that did not know the order yet, as in winners_are_told()
        if event.quantity == orders[one.order].quantity:
            if event.status not in (201, 202) or event.order != one.order:
                complaints.append(f"{event.user} repeated {event.key} of {one.order} and was told {said}")
        elif event.code != "IDEMPOTENCY_KEY_REUSED":
            complaints.append(f"{event.user} used {event.key} for {event.quantity} and was told {said}")
    return complaints


def feed_tells_each_event_once(world: World) -> list[str]:
    """In commit order for each order, without a gap, whichever instances are read."""
    if world.feed is None:
        return []
    due, told = defaultdict(list), defaultdict(list)
    for order, what in world.events:
        due[order].append(what)
    for order, what in world.feed:
        told[order].append(what)
    wrong = sorted(order for order in due.keys() | told.keys() if due[order] != told[order])
    if not wrong:
        return []
    return [f"the feed differs in {len(wrong)} orders: of {wrong[0]} it told {told[wrong[0]]}, not {due[wrong[0]]}"]


def quantities_are_as_asked(world: World) -> list[str]:
    """An order gets all its units or none, and never more than the user's limit."""
    complaints = list(world.told_wrong["quantities_are_as_asked"])
    for voucher in world.vouchers.values():
        over = [order for order in voucher.orders if not 1 <= order.quantity <= voucher.limit]
        complaints += [f"{order.id} has {order.quantity} units, {voucher.limit} at most" for order in over]
    return complaints


def not_enough_is_true(world: World) -> list[str]:
    """NOT_ENOUGH names the units left: fewer than requested, more than none, and no fewer than there may have been."""
    holders, complaints = world.holders(), []
    for event in world.buys():
        if event.code != "NOT_ENOUGH":
            continue
        voucher = world.vouchers[event.voucher]
        gone = world.could_be_gone(voucher, holders[voucher.id], event.ended)
        if not 0 < event.left < event.quantity:
            complaints.append(f"{event.user} asked for {event.quantity} and was told that {event.left} are left")
        elif gone + event.left < voucher.units_least:
            complaints.append(f"{event.user} was told of {event.left} left, when at most {gone} were gone")
    return complaints


def orders_are_bounded(world: World) -> list[str]:
    """A user may have a bounded number of orders of a voucher, ended ones included; a user refused for it has had
    them."""
    complaints = list(world.told_wrong["orders_are_bounded"])
    for voucher in world.vouchers.values():
        for event in world.buys():
            told = event.voucher == voucher.id and event.code == "TOO_MANY_ORDERS"
            if told and not world.has_had_all(voucher, event.user):
                complaints.append(f"{event.user} was told {event.code} and has not had {voucher.orders_most} orders")
    return complaints
