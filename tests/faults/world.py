"""The results of a run for its judges: everybody's answers, and the data of both stores."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Iterable, Iterator

from crowd import Event
from machine import Delays

AFTER_STALL_S = 0.5
HOLD_ROOM_S = 0.1  # it is checked 50 times a second
LATE_PART = 0.2  # of a client's waiting time: a machine late by this much is the cause
LIVE = {"unpaid", "paid"}
ENDED = {"cancelled", "expired", "refunded"}  # after it was placed
FORGIVEN_S = 0.05  # two clocks, and rounding to milliseconds
RETURNED_S = 5.0  # until a rebuild has given back the units of a reduction that was refused


@dataclass
class Order:
    id: str
    user: str
    status: str
    reason: str
    quantity: int = 1
    key: str = ""  # the fingerprint of its Idempotency-Key
    due: float = 0.0  # when it expires if unpaid; 0: never

    @property
    def is_kept(self) -> bool:
        """Refunded without restock: its units are gone."""
        return self.status == "refunded" and self.reason == "KEPT"


def states(rows: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """The state of the order after each (order, status, type). What is noted of a payment does not change it, and may come
    after the move that followed."""
    now: dict[str, str] = defaultdict(lambda: "unpaid")
    for order, status, kind in rows:
        now[order] = status if kind == "moved" else now[order]
        yield now[order]


@dataclass
class Move:
    """A row of order_event."""

    order: str
    status: str
    by: str
    at: float
    why: str = ""


@dataclass
class Payment:
    reference: str
    order: str
    state: str
    amount: int
    at: float = 0.0


@dataclass
class Voucher:
    """One voucher in both stores."""

    id: str
    units: int
    orders: list[Order]
    held: dict[str, str]  # of dead letters: user -> order id
    redis_stock: int
    buyers: dict[str, str]
    journal: int
    state: str = "open"
    window: str = "open"  # or NOT_STARTED, ENDED: by PostgreSQL's clock
    retired: bool = False  # in PostgreSQL; Redis has only a mark
    rebuilds: int = 0  # epochs since the first warm-up
    due_state: str = "open"  # as PostgreSQL has it
    held_units: int = 0
    units_least: int = 0  # at any time; the present number unless an operator changed it
    units_most: int = 0
    limit: int = 1
    price: int = 1
    orders_most: int = 20  # of a user
    scope: str = ""  # its first voucher

    def __post_init__(self) -> None:
        self.units_least, self.units_most = self.units_least or self.units, self.units_most or self.units
        self.held_units = self.held_units or len(self.held)

    @property
    def live_units(self) -> int:
        return sum(order.quantity for order in self.live)

    @property
    def gone_units(self) -> int:
        """Units of refunds without restock."""
        return sum(order.quantity for order in self.orders if order.is_kept)

    @property
    def live(self) -> list[Order]:
        return [order for order in self.orders if order.status in LIVE]

    @property
    def kept(self) -> dict[str, str]:
        """user -> order that is live, or held by a dead letter."""
        return {order.user: order.id for order in self.live} | self.held

    @property
    def kept_in_redis(self) -> dict[str, str]:
        """The same in the form that Redis must have."""
        return {} if self.retired else self.kept


@dataclass
class Sample:
    """Redis's data on a voucher at one moment of the run."""

    voucher: str
    state: str
    stock: int
    buyers: int
    epoch: str


@dataclass
class Fresh:
    """A new user's purchase after everything is settled."""

    stock: int  # in Redis, just before
    event: Event


@dataclass
class OrderList:
    """A user's list of all his orders, after everything is settled."""

    user: str
    status: int
    complete: bool
    orders: set[str]


@dataclass
class World:
    history: list[Event]
    vouchers: dict[str, Voucher]
    letters: int = 0
    letters_expected: int = 0
    logs: list[str] = field(default_factory=list)
    exits: list[str] = field(default_factory=list)  # the unexpected ones
    leaks: list[str] = field(default_factory=list)
    may_differ: bool = False
    taken: set[str] = field(default_factory=set)  # vouchers whose reduction by an operator got no answer
    withdrawn: dict[str, list[tuple[float, float, int]]] = field(default_factory=dict)  # by such calls: from, to, units
    cut: set[str] = field(default_factory=set)  # vouchers with a cut journal, of which a holder of entries was killed
    retirement_may_stop: bool = False  # an instance was killed, or Redis was not reached: the last step may be missing
    unseen: dict[str, int] = field(default_factory=dict)  # units taken by no user of the history, by voucher
    refused_most: int = 0
    rebuilds_most: int = 0
    unknown_most: float = 1.0
    samples: list[Sample] = field(default_factory=list)
    stalls: list[tuple[float, float]] = field(default_factory=list)  # when Redis, asked directly, did not answer
    holds: list[tuple[str, float, float]] = field(default_factory=list)  # of a reopened voucher that sells nothing yet
    delays: Delays = field(default_factory=Delays)  # when the machine itself was late
    foreign: list[str] = field(default_factory=list)  # rows and keys of no user of the history
    ends: list[Event] | None = None  # each accepted order, read by its user after everything is settled; None: not yet
    strangers: list[Event] = field(default_factory=list)  # some of them, read by another user
    lists: list[OrderList] = field(default_factory=list)
    listed: int = 1  # vouchers that are not retired, those of other runs included
    fresh: list[Fresh] = field(default_factory=list)
    lost_202: int = 0  # accepted orders that may have no end
    given_up: int = 0  # accepted orders that an ending instance may have refused without asking Redis for their units
    moves: list[Move] = field(default_factory=list)  # in the order of the feed, without orders that were refused
    payments: list[Payment] = field(default_factory=list)
    extended: list[tuple[str, str]] = field(default_factory=list)  # orders, and under which reference
    migrated_at: float = 0.0  # an earlier version recorded no second payments of a paid order
    rows_wrong: list[str] = field(default_factory=list)  # tests/judge.sql
    told_wrong: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # tests/answers.sql
    overdue: list[str] = field(default_factory=list)  # orders that should have expired by now
    late_s: float = 0.0  # how late an order may expire; 0: not judged
    events: list[tuple[str, str]] = field(default_factory=list)  # order and what happened, in the order of the feed
    feed: list[tuple[str, str]] | None = None  # the same from GET /admin/events; None: not followed

    def asked(self, *what: str):
        return (event for event in self.history if event.what in what and event.voucher in self.vouchers)

    def retirement_is_lost(self, voucher: Voucher) -> bool:
        """docs/reliability.md, "What is open". Redis has lost it: the keys came back, or the mark is gone.
        Or the last step was lost: the voucher is closed, its buyers and its journal are gone, and the mark is missing.
        """
        if not voucher.retired or voucher.state == "retired":
            return False
        half_done = voucher.state == "loading" and not voucher.buyers and voucher.journal == 0
        return self.refused_most > 0 or (self.retirement_may_stop and half_done)

    def scope_of(self, voucher: Voucher) -> list[Voucher]:
        return [one for one in self.vouchers.values() if one.id == voucher.id or (one.scope and one.scope == voucher.scope)]

    def has_had_all(self, voucher: Voucher, user: str, besides: str = "") -> bool:
        """Whether as many orders of the user have ended as allowed, besides this one."""
        ended = [order.id for order in voucher.orders if order.user == user and order.status in ENDED]
        return len([order for order in ended if order != besides]) >= voucher.orders_most

    def orders(self) -> dict[str, Order]:
        return {order.id: order for voucher in self.vouchers.values() for order in voucher.orders}

    def buys(self):
        return (event for event in self.history if event.what == "buy" and event.voucher in self.vouchers)

    def unknown_share(self) -> tuple[float, int]:
        """The share of the crowd's purchases without a definite answer although Redis would have answered, on a machine
        that was on time; and their number. Broken links need a moment afterwards."""
        events = [event for event in self.buys() if not event.user.startswith("back")]
        unknown = [event for event in events if event.outcome == "unknown" and not event.was_late]
        unknown = [e for e in unknown if self.delays.between_s(e.began, e.ended) < LATE_PART * (e.ended - e.began)]
        unknown = [e for e in unknown if not self.was_held(e)]
        served = [e for e in unknown if not any(a < e.ended and e.began < b + AFTER_STALL_S for a, b in self.stalls)]
        return len(served) / max(len(events), 1), len(events)

    def was_held(self, event: Event) -> bool:
        """Whether it was told to retry because the sale had just reopened. That is a definite answer."""
        return event.code == "LOADING" and any(
            id == event.voucher and since - HOLD_ROOM_S < event.ended and event.began < until + HOLD_ROOM_S
            for id, since, until in self.holds
        )

    def accepted(self) -> dict[tuple[str, str], Event]:
        """Each order promised by 201 or 202: (order, user) -> the first answer."""
        found: dict[tuple[str, str], Event] = {}
        for event in self.buys():
            if event.status in (201, 202):
                found.setdefault((event.order, event.user), event)
        return found

    def forgiven(self) -> set[str]:
        """Accepted orders without an end that two simultaneous faults may have taken; none if they are more than the
        row allows. ALREADY_ORDERED also names an accepted order."""
        kept = {order.id for v in self.vouchers.values() for order in v.orders}
        kept |= {order for v in self.vouchers.values() for order in v.held.values()}
        lost = {e.order for e in self.buys() if e.status == 202 or e.code == "ALREADY_ORDERED"} - kept
        return lost if len(lost) <= self.lost_202 else set()

    def holders(self) -> dict[str, list[float]]:
        """For each voucher, the sorted times since which each unit may have been gone. A user with any other answer
        than definite refusals, or with a row, may have had as many units as he ever requested until then. For a grant
        lost while its user waited ends in a refusal, too. Units refunded without restock do not return. Returned units are
        ignored, since they may have been sold again."""
        most: dict[tuple[str, str], int] = {}
        gone: dict[str, list[float]] = {id: [] for id in self.vouchers}
        rows = {id: {order.user for order in voucher.orders} for id, voucher in self.vouchers.items()}
        for event in sorted(self.asked("buy", "hung"), key=lambda event: event.began):
            if event.outcome == "refused" and event.user not in rows[event.voucher]:
                continue
            who = event.voucher, event.user
            gone[event.voucher] += [event.began] * (event.quantity - most.get(who, 0))
            most[who] = max(event.quantity, most.get(who, 0))
        kept, orders = {}, self.orders()
        for event in self.asked("refund"):
            if event.order in orders and orders[event.order].is_kept:
                kept[event.order] = min(event.began, kept.get(event.order, event.began))
        for id, voucher in self.vouchers.items():
            for order in voucher.orders:
                gone[id] += [kept[order.id]] * order.quantity if order.id in kept else []
        return {id: sorted(times) for id, times in gone.items()}

    def could_be_gone(self, voucher: Voucher, holders: list[float], at: float) -> int:
        """The maximum number of units that may have been taken before that moment."""
        withdrawn = self.withdrawn.get(voucher.id, ())
        meanwhile = sum(n for began, ended, n in withdrawn if began < at < ended + RETURNED_S)
        return bisect_left(holders, at) + self.unseen.get(voucher.id, 0) + meanwhile
