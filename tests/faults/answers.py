"""Checks the answers that users received. Each assertion is a function of a World and returns complaints. What rows
alone can show is decided by tests/answers.sql, as in the simulation."""

from __future__ import annotations

from collections import defaultdict

from crowd import REFUSALS
from world import ENDED, Voucher, World

MARK_S = 0.3  # SECKILL_SOLD_OUT_MARK_MS, and some slack
EPOCHS = 1024  # that an order id can distinguish
LISTED_VOUCHERS = 64  # whose pending orders a list queries
WITH_ANOTHER = {"ALREADY_ORDERED", "REPEATED"}  # refused because the user has another order
KEY_REASON = "REPEATED"  # its Idempotency-Key had made another order
FEW = 20  # below this number of purchases no share is computed
# The states that may follow each state; a pending order may get any.
AFTER = {
    "unpaid": {"unpaid", "paid", "cancelled", "expired", "refunded"},
    "paid": {"paid", "refunded"},
    "cancelled": {"cancelled"},
    "expired": {"expired"},
    "refunded": {"refunded"},
    "refused": {"refused"},
}


def created_is_a_row(world: World) -> list[str]:
    """P3: a 201 has a row."""
    return world.told_wrong["created_is_a_row"]


def accepted_ends(world: World) -> list[str]:
    """P5: it ends as a row, as a refusal with a reason, or in a dead letter."""
    complaints = world.told_wrong["accepted_ends"]
    return complaints if len(complaints) > world.lost_202 else []


def accepted_is_the_users_own(world: World) -> list[str]:
    return world.told_wrong["accepted_is_the_users_own"]


def accepted_is_mostly_confirmed(world: World) -> list[str]:
    """Each fault sets how many accepted orders may end as refused: none if nothing is lost, except orders under a
    reused key that only PostgreSQL knew."""
    refused = {o.id: o.reason for v in world.vouchers.values() for o in v.orders if o.status == "refused"}
    reasons = [
        refused[order]
        for (order, _), event in world.accepted().items()
        if order in refused and not (event.key and refused[order] == KEY_REASON)
    ]
    if len(reasons) <= world.refused_most:
        return []
    return [f"{len(reasons)} accepted orders were refused, {world.refused_most} at most: {sorted(set(reasons))}"]


def accepted_is_never_unknown(world: World) -> list[str]:
    """P5: a client that got a 202 never gets 404 at its URL."""
    reads, lost = [event for event in world.history if event.what == "read"], world.forgiven()
    return [f"GET of {e.order} answered 404" for e in reads if e.status == 404 and e.order not in lost]


def each_url_tells_the_end(world: World) -> list[str]:
    """P5: at the end each accepted order can be read by its user, and matches its row."""
    if world.ends is None:
        return []
    rows = {(o.id, o.user): (o.status, o.reason) for v in world.vouchers.values() for o in v.orders}
    rows |= {(order, user): ("pending", "") for v in world.vouchers.values() for user, order in v.held.items()}
    due, complaints = set(world.accepted()), []
    lost = world.forgiven()
    for event in world.ends:
        due.discard((event.order, event.user))
        if event.order in lost and event.status in (404, 503):
            continue
        said, row = (event.state, event.reason), rows.get((event.order, event.user))
        has_expired_since = said == ("unpaid", "") and row == ("expired", "")
        if event.status != 200 or (said != row and not has_expired_since):
            complaints.append(f"GET of {event.order} says {event.status} {event.code} {said}, and its row {row}")
    return complaints + [f"{order} of {user} was not read" for order, user in sorted(due)]


def lists_are_complete(world: World) -> list[str]:
    """A user's list has all his orders, and is complete if all is quiet and all vouchers are queried."""
    complaints, later = [], {fresh.event.order for fresh in world.fresh}  # bought after the lists were read
    all_were_asked = world.listed <= LISTED_VOUCHERS
    for one in world.lists:
        own = {o.id for v in world.vouchers.values() for o in v.orders if o.user == one.user and o.id not in later}
        own |= {v.held[one.user] for v in world.vouchers.values() if one.user in v.held}
        lacks = sorted(own - one.orders)
        if one.status != 200 or (all_were_asked and not one.complete) or lacks:
            complaints.append(f"{one.user}'s list: {one.status}, complete {one.complete}, lacks {len(lacks)}: {lacks[:3]}")
    return complaints


def strangers_see_no_order(world: World) -> list[str]:
    """Another user's order is 404. It may be 503 if its id has an earlier epoch: an instance may then hold an order
    that no store knows."""
    return [
        f"{e.user} asked for {e.order}: {e.status}"
        for e in world.strangers
        if e.status != 404 and not (e.status == 503 and made_earlier(e.order, world.vouchers[e.voucher]))
    ]


def made_earlier(order: str, voucher: Voucher) -> bool:
    """Whether the id has an earlier epoch than its voucher, by its last ten bits. An instance's first orders of a
    voucher have epoch 0, because it knows no later one."""
    epoch = voucher.rebuilds + 1
    return epoch >= EPOCHS or int(order[-3:], 16) % EPOCHS < epoch


def answers_are_for_who_asked(world: World) -> list[str]:
    """The ids in a body are those of the request."""
    complaints = []
    for event in [*world.history, *(world.ends or []), *world.strangers]:
        asked = [event.order, event.user, event.voucher]
        if event.status in (200, 201, 202) and event.what != "hung" and event.shown != asked:
            complaints.append(f"asked for {asked}, shown {event.shown}")
    return complaints


def refused_left_no_order(world: World) -> list[str]:
    """P7: users who received only definite refusals have no order."""
    return world.told_wrong["refused_left_no_order"]


def sold_out_is_true(world: World) -> list[str]:
    """SOLD_OUT is wrong if too few users can have had a unit by then."""
    holders, complaints = world.holders(), []
    for event in world.buys():
        voucher = world.vouchers[event.voucher]
        if event.code != "SOLD_OUT":
            continue
        gone = world.could_be_gone(voucher, holders[voucher.id], event.ended)
        if gone < voucher.units_least:
            complaints.append(f"{event.user} heard SOLD_OUT when at most {gone} of {voucher.units_least} were gone")
    return complaints


def reasons_are_true(world: World) -> list[str]:
    """ALREADY_ORDERED and its like require another order; a lack of units requires that all may have been gone."""
    holders, complaints, unasked = world.holders(), [], []
    for voucher in world.vouchers.values():
        placed = {order.user for one in world.scope_of(voucher) for order in one.orders if order.status in ENDED}
        placed |= {user for one in world.scope_of(voucher) for user in one.kept}
        gone = world.could_be_gone(voucher, holders[voucher.id], float("inf"))
        for order in voucher.orders:
            if order.status == "refused" and order.reason in WITH_ANOTHER and order.user not in placed:
                complaints.append(f"{order.id} was refused as {order.reason}, but {order.user} had no order")
            enough = gone + order.quantity <= voucher.units_least
            if order.status == "refused" and order.reason in ("GRANT_LOST", "SOLD_OUT") and enough:
                found = complaints if order.reason == "SOLD_OUT" else unasked
                found.append(f"{order.id}: {order.reason} when at most {gone} of {voucher.units_least} were gone")
    return complaints + (unasked if len(unasked) > world.given_up else [])


def known_orders(world: World, written: bool = False) -> dict[tuple[str, str], float]:
    """Since when each user has known of his final order, or known that it is written."""
    won: dict[tuple[str, str], float] = {}
    kept = {id: voucher.kept for id, voucher in world.vouchers.items()}
    for event in world.buys():
        heard = event.status == 201 if written else event.outcome == "ok"
        if heard and event.order == kept[event.voucher].get(event.user):
            key = event.voucher, event.user
            won[key] = min(won.get(key, event.ended), event.ended)
    return won


def winners_are_told(world: World) -> list[str]:
    """P6: a user who had won before asking again, and still has the order, is not refused. Where Redis may lose grants,
    an order counts only from its commit: until it is granted again, only the instance that holds it knows it. Elsewhere
    a written order counts at once, since no instance caches an older refusal."""
    loses, complaints = world.refused_most > 0, []
    won, written = known_orders(world, written=loses), known_orders(world, written=True)
    for event in world.buys():
        at = won.get((event.voucher, event.user))
        if at is None:
            continue
        at_once = not loses and event.began > written.get((event.voucher, event.user), event.began)
        if not at_once and event.began <= at + MARK_S + world.delays.between_s(at - MARK_S, event.began):
            continue
        if event.code in REFUSALS or event.status == 404:
            complaints.append(f"{event.user} had won and was told {event.code} {event.began - at:.1f} s later")
    return complaints


def repeats_name_the_order(world: World) -> list[str]:
    """P6: with *the* order id, once the user has received it. Where Redis may lose grants, the user of an accepted
    order may buy another one and end it before the first is granted again."""
    won, complaints, lost = known_orders(world), [], world.forgiven()
    written = known_orders(world, written=True)
    for event in world.buys():
        voucher = world.vouchers[event.voucher]
        scope = world.scope_of(voucher)
        own = {o.id for one in scope for o in one.orders if o.user == event.user} | lost
        own |= {one.held.get(event.user) for one in scope}
        if event.code == "ALREADY_ORDERED" and event.order not in own:
            complaints.append(f"ALREADY_ORDERED named {event.order}, which is not {event.user}'s")
        at = won.get((event.voucher, event.user))
        the = voucher.kept.get(event.user)
        may_be_lost = world.refused_most > 0 and written.get((event.voucher, event.user), event.began) >= event.began
        ended = [order for order in voucher.orders if order.status in ENDED]
        earlier = event.order in {order.id for order in ended if may_be_lost or (event.key and order.key)}
        if at is not None and event.began > at and event.outcome == "ok" and event.order != the and not earlier:
            complaints.append(f"{event.user} had {the} and was told {event.status} {event.code} {event.order}")
    return complaints


def states_never_go_back(world: World) -> list[str]:
    """No order returns to an earlier state, except in the first answer that a key repeats."""
    told, complaints = defaultdict(list), []
    for event in [*world.history, *(world.ends or [])]:
        if event.order and event.state and not (event.what == "buy" and event.key):
            told[event.order].append(event)
    for order, events in told.items():
        for before in events:
            allowed = AFTER.get(before.state)
            for event in events if allowed else []:
                if before.ended < event.began and event.state not in allowed:
                    later = f"{event.began - before.ended:.2f} s later {event.state}"
                    complaints.append(f"{order} was {before.state} and {later}")
    return complaints


def unknowns_are_few(world: World) -> list[str]:
    """A fault may cost answers while it lasts, but not more."""
    share, purchases = world.unknown_share()
    if purchases < FEW or share <= world.unknown_most:
        return []
    return [f"{share:.0%} of {purchases} purchases had no definite answer, {world.unknown_most:.0%} at most"]


def newcomers_are_served(world: World) -> list[str]:
    """P4, tested by buying: the units in Redis's stock can be bought, except by users who have had all their orders;
    nothing else can be."""
    complaints = []
    for fresh in world.fresh:
        event = fresh.event
        voucher = world.vouchers[event.voucher]
        sold = "SOLD_OUT" if fresh.stock == 0 else "TOO_MANY_ORDERS" if world.has_had_all(voucher, event.user, event.order) else ""
        due = voucher.window if voucher.window in REFUSALS else sold
        if event.code != due or (due == "" and event.status not in (201, 202)):
            complaints.append(f"with {fresh.stock} for sale {event.user} heard {event.status} {event.code}")
    return complaints
