"""What a run leaves behind for its judges: what everybody heard, and what is in both stores."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from crowd import Event

AFTER_STALL_S = 0.5
LIVE = {"unpaid", "paid"}


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
    unseen: dict[str, int] = field(default_factory=dict)  # units taken by no user of the history, by voucher
    refused_most: int = 0
    rebuilds_most: int = 0
    unknown_most: float = 1.0
    samples: list[Sample] = field(default_factory=list)
    stalls: list[tuple[float, float]] = field(default_factory=list)  # when Redis, asked directly, did not answer
    foreign: list[str] = field(default_factory=list)  # rows and keys of no user of the history
    ends: list[Event] | None = None  # each accepted order, read by its user when all is settled; None: not yet
    strangers: list[Event] = field(default_factory=list)  # some of them, read by somebody else
    lists: list[OrderList] = field(default_factory=list)
    fresh: list[Fresh] = field(default_factory=list)
    lost_202: int = 0  # accepted orders that may have no end

    def buys(self):
        return (event for event in self.history if event.what == "buy" and event.voucher in self.vouchers)

    def unknown_share(self) -> tuple[float, int]:
        """Of the crowd's purchases, those without a definite answer though Redis would have answered; and how many
        there were. Links that broke need a moment afterwards."""
        events = [event for event in self.buys() if not event.user.startswith("back")]
        unknown = [event for event in events if event.outcome == "unknown" and not event.was_late]
        served = [e for e in unknown if not any(a < e.ended and e.began < b + AFTER_STALL_S for a, b in self.stalls)]
        return len(served) / max(len(events), 1), len(events)

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
        """For each voucher, since when each of its users may have had a unit, sorted: those who heard anything
        but definite refusals, and those who have a row: a grant that was lost while its user waited ends in a
        refusal, too. A user has one unit at most."""
        since: dict[str, dict[str, float]] = {id: {} for id in self.vouchers}
        rows = {id: {order.user for order in voucher.orders} for id, voucher in self.vouchers.items()}
        for event in self.history:
            if event.what not in ("buy", "hung") or event.voucher not in since:
                continue
            if event.outcome != "refused" or event.user in rows[event.voucher]:
                users = since[event.voucher]
                users[event.user] = min(event.began, users.get(event.user, event.began))
        return {id: sorted(users.values()) for id, users in since.items()}

    def could_be_gone(self, voucher: Voucher, holders: list[float], at: float) -> int:
        """How many units may have been taken before that moment, at the very most."""
        return bisect_left(holders, at) + self.unseen.get(voucher.id, 0)
