"""What a run leaves behind for its judges: what everybody heard, and what is in both stores."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from crowd import Event
from machine import Delays

AFTER_STALL_S = 0.5
HOLD_ROOM_S = 0.1  # it is looked at 50 times a second
LATE_PART = 0.2  # of the time that a client waited: a machine that is late by so much is why
LIVE = {"unpaid", "paid"}
ENDED = {"cancelled", "expired", "refunded"}  # after it was placed
FORGIVEN_S = 0.05  # two clocks, and the rounding of milliseconds


@dataclass
class Order:
    id: str
    user: str
    status: str
    reason: str
    quantity: int = 1
    key: str = ""  # the fingerprint of its Idempotency-Key
    due: float = 0.0  # when it expires, if it is not paid; 0: never

    @property
    def is_kept(self) -> bool:
        """Refunded, and its units are gone."""
        return self.status == "refunded" and self.reason == "KEPT"


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
    """Both stores' view."""

    id: str
    units: int
    pg_stock: int
    pg_live: int
    orders: list[Order]
    held: dict[str, str]  # of dead letters: user -> order id
    redis_stock: int
    buyers: dict[str, str]
    journal: int
    state: str = "open"
    window: str = "open"  # or NOT_STARTED, ENDED: by PostgreSQL's clock
    retired: bool = False  # in PostgreSQL; Redis has a mark and no more
    rebuilds: int = 0  # epochs since the first warm-up
    due_state: str = "open"  # as PostgreSQL has it
    held_units: int = 0
    units_least: int = 0  # at any time; as many as now, where no operator changed them
    units_most: int = 0
    limit: int = 1
    price: int = 1

    def __post_init__(self) -> None:
        self.units_least, self.units_most = self.units_least or self.units, self.units_most or self.units
        self.held_units = self.held_units or len(self.held)

    @property
    def live_units(self) -> int:
        return sum(order.quantity for order in self.live)

    @property
    def gone_units(self) -> int:
        """Of refunds that did not return them."""
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
        """The same, as Redis must have it."""
        return {} if self.retired else self.kept


@dataclass
class Sample:
    """What Redis had of a voucher at one moment of the run."""

    voucher: str
    state: str
    stock: int
    buyers: int
    epoch: str


@dataclass
class Fresh:
    """Somebody new who asks when all is settled."""

    stock: int  # in Redis, just before
    event: Event


@dataclass
class OrderList:
    """What a user was told of all orders of his, when all is settled."""

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
    exits: list[str] = field(default_factory=list)  # those that were not expected
    leaks: list[str] = field(default_factory=list)
    may_differ: bool = False
    taken: set[str] = field(default_factory=set)  # vouchers of which units were taken away, and the answer was lost
    cut: set[str] = field(default_factory=set)  # vouchers whose journal was cut when a holder of its entries was killed
    retirement_may_stop: bool = False  # an instance was killed, or Redis was not reached: the last step may be missing
    unseen: dict[str, int] = field(default_factory=dict)  # units taken by no user of the history, by voucher
    refused_most: int = 0
    rebuilds_most: int = 0
    unknown_most: float = 1.0
    samples: list[Sample] = field(default_factory=list)
    stalls: list[tuple[float, float]] = field(default_factory=list)  # when Redis, asked directly, did not answer
    holds: list[tuple[str, float, float]] = field(default_factory=list)  # of a voucher that has reopened: nothing is sold yet
    delays: Delays = field(default_factory=Delays)  # when the machine itself was late
    foreign: list[str] = field(default_factory=list)  # rows and keys of no user of the history
    ends: list[Event] | None = None  # each accepted order, read by its user when all is settled; None: not yet
    strangers: list[Event] = field(default_factory=list)  # some of them, read by somebody else
    lists: list[OrderList] = field(default_factory=list)
    listed: int = 1  # vouchers that are not retired, those of no run included
    fresh: list[Fresh] = field(default_factory=list)
    lost_202: int = 0  # accepted orders that may have no end
    orders_most: int = 20  # SECKILL_ORDERS_PER_USER
    moves: list[Move] = field(default_factory=list)  # in the order of the feed
    payments: list[Payment] = field(default_factory=list)
    overdue: list[str] = field(default_factory=list)  # orders that should have expired by now
    late_s: float = 0.0  # how late an order may expire at most; 0: not judged
    feed: list[tuple[str, str]] | None = None  # order and status, as GET /admin/events told; None: not followed

    def asked(self, *what: str):
        return (event for event in self.history if event.what in what and event.voucher in self.vouchers)

    def retirement_is_lost(self, voucher: Voucher) -> bool:
        """docs/reliability.md, "What is open". Redis has lost the moment of it: the keys came back, or the mark went.
        Or the last step was lost: the voucher is closed, its buyers and its journal are gone, and the mark is missing.
        """
        if not voucher.retired or voucher.state == "retired":
            return False
        half_done = voucher.state == "loading" and not voucher.buyers and voucher.journal == 0
        return self.refused_most > 0 or (self.retirement_may_stop and half_done)

    def has_had_all(self, voucher: Voucher, user: str) -> bool:
        """Whether as many orders of the user have ended as one may have."""
        return sum(order.user == user and order.status in ENDED for order in voucher.orders) >= self.orders_most

    def orders(self) -> dict[str, Order]:
        return {order.id: order for voucher in self.vouchers.values() for order in voucher.orders}

    def buys(self):
        return (event for event in self.history if event.what == "buy" and event.voucher in self.vouchers)

    def unknown_share(self) -> tuple[float, int]:
        """Of the crowd's purchases, those without a definite answer though Redis would have answered, on a machine that was
        on time; and how many there were. Links that broke need a moment afterwards."""
        events = [event for event in self.buys() if not event.user.startswith("back")]
        unknown = [event for event in events if event.outcome == "unknown" and not event.was_late]
        unknown = [e for e in unknown if self.delays.between_s(e.began, e.ended) < LATE_PART * (e.ended - e.began)]
        unknown = [e for e in unknown if not self.was_held(e)]
        served = [e for e in unknown if not any(a < e.ended and e.began < b + AFTER_STALL_S for a, b in self.stalls)]
        return len(served) / max(len(events), 1), len(events)

    def was_held(self, event: Event) -> bool:
        """Whether it was told to come again because the sale had reopened a moment ago. That is a definite answer."""
        return event.code == "LOADING" and any(
            id == event.voucher and since - HOLD_ROOM_S < event.ended and event.began < until + HOLD_ROOM_S
            for id, since, until in self.holds
        )

    def accepted(self) -> dict[tuple[str, str], Event]:
        """Each order that was promised, by 201 or 202: (order, user) -> the first answer."""
        found: dict[tuple[str, str], Event] = {}
        for event in self.buys():
            if event.status in (201, 202):
                found.setdefault((event.order, event.user), event)
        return found

    def forgiven(self) -> set[str]:
        """Accepted orders without an end that two faults at once may have taken; none, where they are more than the
        row allows. Who is told ALREADY_ORDERED is told of an accepted order."""
        kept = {order.id for v in self.vouchers.values() for order in v.orders}
        kept |= {order for v in self.vouchers.values() for order in v.held.values()}
        lost = {e.order for e in self.buys() if e.status == 202 or e.code == "ALREADY_ORDERED"} - kept
        return lost if len(lost) <= self.lost_202 else set()

    def holders(self) -> dict[str, list[float]]:
        """For each voucher, since when each of its units may have been gone, sorted: a user who heard anything but
        definite refusals, or who has a row, may have had as many as he ever asked for until then (a grant that was
        lost while its user waited ends in a refusal, too); and what was refunded and kept does not come back. What was
        returned meanwhile is not counted: it may have been sold again."""
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
        """How many units may have been taken before that moment, at the very most."""
        return bisect_left(holders, at) + self.unseen.get(voucher.id, 0)
