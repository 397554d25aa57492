"""What must be true when a fault is over and everything has settled. Each assertion is one function of a World
and returns complaints; `self_test` shows that each of them can complain.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from crowd import REFUSALS, Event

LIVE = {"unpaid", "paid"}
MARK_S = 0.3  # SECKILL_SOLD_OUT_MARK_MS, and a little


@dataclass
class Order:
    id: str
    user: str
    status: str
    reason: str


@dataclass
class Voucher:
    """Both stores' view."""

    id: str
    units: int
    pg_stock: int
    orders: list[Order]
    held: dict[str, str]  # of dead letters: user -> order id
    redis_stock: int
    buyers: dict[str, str]
    journal: int
    state: str = "open"

    @property
    def live(self) -> list[Order]:
        return [order for order in self.orders if order.status in LIVE]


@dataclass
class World:
    history: list[Event]
    vouchers: dict[str, Voucher]
    letters: int = 0
    letters_expected: int = 0
    logs: list[str] = field(default_factory=list)
    exits: list[str] = field(default_factory=list)  # those that were not expected
    leaks: list[str] = field(default_factory=list)
    may_differ: bool = False
    lost_202: int = 0  # accepted orders that may have no end

    def buys(self):
        return (event for event in self.history if event.what == "buy" and event.voucher in self.vouchers)


def not_oversold(world: World) -> list[str]:
    return [f"{len(v.live)} live orders of {v.units} units" for v in world.vouchers.values() if len(v.live) > v.units]


def one_live_order_each(world: World) -> list[str]:
    complaints = []
    for voucher in world.vouchers.values():
        users = Counter(order.user for order in voucher.live)
        complaints += [f"{user} has {n} live orders" for user, n in users.items() if n > 1]
    return complaints


def created_is_a_row(world: World) -> list[str]:
    """P3."""
    complaints = []
    for event in world.buys():
        rows = {(o.id, o.user) for o in world.vouchers[event.voucher].live}
        if event.status == 201 and (event.order, event.user) not in rows:
            complaints.append(f"201 for {event.order} of {event.user}, but there is no such live order")
    return complaints


def endless(world: World) -> dict[str, str]:
    """The accepted orders without an end, and what to say of each."""
    complaints = {}
    for event in world.buys():
        if event.status != 202:
            continue
        voucher = world.vouchers[event.voucher]
        ends = {o.id for o in voucher.orders if o.status in LIVE or (o.status == "refused" and o.reason)}
        if event.order not in ends and event.order not in voucher.held.values():
            complaints[event.order] = f"202 for {event.order} of {event.user} has no end"
    return complaints


def forgiven(world: World) -> set[str]:
    """Those that two faults at once may have taken; none of them where there are more than that. To be told
    ALREADY_ORDERED is to be told of an accepted order."""
    kept = {order.id for v in world.vouchers.values() for order in v.orders}
    kept |= {order for v in world.vouchers.values() for order in v.held.values()}
    lost = {e.order for e in world.buys() if e.status == 202 or e.code == "ALREADY_ORDERED"} - kept
    return lost if len(lost) <= world.lost_202 else set()


def accepted_ends(world: World) -> list[str]:
    """P5: a row, or a refusal with its reason, or held by a dead letter."""
    lost = forgiven(world)
    return [complaint for order, complaint in endless(world).items() if order not in lost]


def accepted_is_never_unknown(world: World) -> list[str]:
    """P5: whoever got a 202 never hears 404 at its URL."""
    looks, lost = [event for event in world.history if event.what == "look"], forgiven(world)
    return [f"GET of {e.order} answered 404" for e in looks if e.status == 404 and e.order not in lost]


def refused_left_no_order(world: World) -> list[str]:
    """Users who heard nothing but definite refusals have no order."""
    heard = defaultdict(set)
    for event in world.buys():
        heard[event.voucher, event.user].add(event.outcome)
    complaints = []
    for (voucher, user), outcomes in heard.items():
        if outcomes == {"refused"} and any(o.user == user for o in world.vouchers[voucher].live):
            complaints.append(f"{user} was refused each time and has an order")
    return complaints


def winners_are_told(world: World) -> list[str]:
    """P6: who had won before asking again, and still has the order, is not told that there is nothing."""
    won: dict[tuple[str, str], float] = {}
    for event in world.buys():
        live = {(o.id, o.user) for o in world.vouchers[event.voucher].live}
        if event.outcome == "ok" and (event.order, event.user) in live:
            key = event.voucher, event.user
            won[key] = min(won.get(key, event.ended), event.ended)
    complaints = []
    for event in world.buys():
        at = won.get((event.voucher, event.user))
        if at is not None and event.began > at + MARK_S and (event.code in REFUSALS or event.status == 404):
            complaints.append(f"{event.user} had won and was told {event.code} {event.began - at:.1f} s later")
    return complaints


def repeats_name_the_order(world: World) -> list[str]:
    complaints, lost = [], forgiven(world)
    for event in world.buys():
        voucher = world.vouchers[event.voucher]
        own = {o.id for o in voucher.orders if o.user == event.user} | {voucher.held.get(event.user)} | lost
        if event.code == "ALREADY_ORDERED" and event.order not in own:
            complaints.append(f"ALREADY_ORDERED named {event.order}, which is not {event.user}'s")
    return complaints


def every_unit_is_somewhere(world: World) -> list[str]:
    """P4: in a live order, held, or for sale; and PostgreSQL counts the same."""
    complaints = []
    for v in world.vouchers.values():
        there = len(v.live) + len(v.held) + v.redis_stock
        if there != v.units:
            complaints.append(f"{len(v.live)} live + {len(v.held)} held + {v.redis_stock} for sale of {v.units} units")
        if v.pg_stock != v.units - len(v.live):
            complaints.append(f"PostgreSQL has {v.pg_stock} in stock with {len(v.live)} live of {v.units}")
        if v.state != "open":
            complaints.append(f"the voucher is {v.state}")
    return complaints


def buyers_are_the_orders(world: World) -> list[str]:
    complaints = []
    for v in world.vouchers.values():
        due = {order.user: order.id for order in v.live} | v.held
        wrong = {u for u in due.keys() | v.buyers.keys() if due.get(u) != v.buyers.get(u)}
        if wrong:
            some = sorted(wrong)[0]
            complaints.append(f"{len(wrong)} buyers differ, as {some}: {v.buyers.get(some)} is {due.get(some)}")
    return complaints


def journal_is_empty(world: World) -> list[str]:
    return [f"{v.journal} entries left in the journal" for v in world.vouchers.values() if v.journal != 0]


def letters_are_accounted_for(world: World) -> list[str]:
    if world.letters == world.letters_expected:
        return []
    return [f"{world.letters} dead letters, {world.letters_expected} expected"]


def processes_are_well(world: World) -> list[str]:
    bad = [line for line in world.logs if "level=fatal" in line or "Sanitizer" in line or "runtime error:" in line]
    return world.exits + world.leaks + bad


def the_audit_had_nothing_to_mend(world: World) -> list[str]:
    """A difference that only the audit mended is a fault that something else let through."""
    found = [line for line in world.logs if "books differ" in line]
    return [] if world.may_differ else found[:1]


ASSERTIONS = [
    not_oversold,
    one_live_order_each,
    created_is_a_row,
    accepted_ends,
    accepted_is_never_unknown,
    refused_left_no_order,
    winners_are_told,
    repeats_name_the_order,
    every_unit_is_somewhere,
    buyers_are_the_orders,
    journal_is_empty,
    letters_are_accounted_for,
    processes_are_well,
    the_audit_had_nothing_to_mend,
]


def check(world: World) -> dict[str, list[str]]:
    """The complaints, by assertion."""
    found = {assertion.__name__: assertion(world) for assertion in ASSERTIONS}
    return {name: complaints for name, complaints in found.items() if complaints}


# ---- the negative control ----


def good_world() -> World:
    orders = [Order(f"o{n}", f"u{n}", "unpaid", "") for n in range(3)] + [Order("o9", "u9", "refused", "GRANT_LOST")]
    voucher = Voucher("1", 5, 2, orders, {"u4": "o4"}, 1, {f"u{n}": f"o{n}" for n in (0, 1, 2, 4)}, 0)
    history = [
        Event(1, 2, "buy", "u0", "1", 0, 201, "", "o0"),
        Event(1, 2, "buy", "u1", "1", 0, 202, "", "o1"),
        Event(3, 4, "look", "u1", "1", 0, 200, "", "o1", "pending"),
        Event(5, 6, "buy", "u0", "1", 1, 409, "ALREADY_ORDERED", "o0"),
        Event(1, 2, "buy", "u2", "1", 0),  # unknown: it became an order
        Event(1, 2, "buy", "u9", "1", 0, 202, "", "o9"),
        Event(7, 8, "buy", "u7", "1", 0, 409, "SOLD_OUT"),
        Event(1, 2, "buy", "u4", "1", 0, 202, "", "o4"),
    ]
    return World(history, {"1": voucher}, letters=1, letters_expected=1)


def corruptions() -> dict[str, object]:
    """For each assertion, how to break a world so that it must complain."""

    def voucher(change):
        return lambda world: change(world.vouchers["1"])

    def event(*fields):
        return lambda world: world.history.append(Event(*fields))

    return {
        "not_oversold": voucher(lambda v: v.orders.extend(Order(f"x{n}", f"x{n}", "paid", "") for n in range(4))),
        "one_live_order_each": voucher(lambda v: v.orders.append(Order("o7", "u0", "unpaid", ""))),
        "created_is_a_row": event(1, 2, "buy", "u8", "1", 0, 201, "", "o8"),
        "accepted_ends": voucher(lambda v: v.orders.remove(v.orders[3])),
        "accepted_is_never_unknown": event(3, 4, "look", "u1", "1", 0, 404, "NOT_FOUND", "o1"),
        "refused_left_no_order": voucher(lambda v: v.orders.append(Order("o7", "u7", "unpaid", ""))),
        "winners_are_told": event(5, 6, "buy", "u0", "1", 0, 409, "SOLD_OUT"),
        "repeats_name_the_order": event(5, 6, "buy", "u0", "1", 0, 409, "ALREADY_ORDERED", "o1"),
        "every_unit_is_somewhere": voucher(lambda v: setattr(v, "redis_stock", 2)),
        "buyers_are_the_orders": voucher(lambda v: v.buyers.update(u0="o8")),
        "journal_is_empty": voucher(lambda v: setattr(v, "journal", 1)),
        "letters_are_accounted_for": lambda world: setattr(world, "letters", 2),
        "processes_are_well": lambda world: world.logs.append("level=fatal msg=x"),
        "the_audit_had_nothing_to_mend": lambda world: world.logs.append('msg="books differ"'),
    }


def self_test() -> list[str]:
    """What is wrong with the checker itself."""
    wrong = [f"complains about a good world: {check(good_world())}"] if check(good_world()) else []
    broken = corruptions()
    for assertion in ASSERTIONS:
        world = copy.deepcopy(good_world())
        broken[assertion.__name__](world)
        if assertion.__name__ not in check(world):
            wrong.append(f"{assertion.__name__} does not see what it is for")
    return wrong
