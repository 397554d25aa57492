"""Checks the records of one voucher against the promises. It trusts no store."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import settlement

OVERSOLD = "oversold"
DUPLICATES = "duplicate buyers"
SHARED = "201s sharing an order"
LOST = "201s without a row"
ENDLESS = "202s without an end"
UNSOLD = "unsold units"
DRIFT = "Redis-PostgreSQL drift"
JOURNAL = "journal entries left"
REPORT = "settlement differs"

LIVE = ("unpaid", "paid")


@dataclass(frozen=True)
class Finding:
    """One verdict: nothing is wrong if count is 0."""

    name: str
    count: int
    why: str


@dataclass(frozen=True)
class Books:
    """All records of one voucher: what each store holds and what clients were answered."""

    units: int  # PostgreSQL: ever offered
    stock: int  # PostgreSQL: not in a live order
    orders: dict[str, tuple[str, str]]  # PostgreSQL: id -> user, status
    quantities: dict[str, int]  # PostgreSQL: id -> units
    last_order_at: float
    redis_stock: int | None  # None: Redis does not know the voucher
    buyers: dict[str, str]  # Redis: user -> order id
    journal: int
    placed: Counter[str]  # ids answered with 201, and how often
    accepted: set[str]  # ids answered with 202
    sold_out: int  # number of SOLD_OUT answers
    reports: list[dict] = field(default_factory=list)  # the service's own, one from each instance; empty: there are none
    placed_at: dict[str, int] = field(default_factory=dict)  # 201s of each instance that has an address of its own
    gone: frozenset[str] = frozenset()  # instances that ended in the rush

    @property
    def live(self) -> list[tuple[str, str]]:
        return [(order, user) for order, (user, status) in self.orders.items() if status in LIVE]

    @property
    def live_units(self) -> int:
        return sum(self.quantities[order] for order, _ in self.live)


def check(books: Books) -> list[Finding]:
    """Checks the books against the promises. Returns every verdict, including the good ones."""
    live = books.live
    per_user = Counter(user for _, user in live)
    # The crowd sends no Idempotency-Key, with which a 201 may be repeated, and cancels nothing.
    shared = [order for order, times in books.placed.items() if times > 1]
    lost = [order for order in books.placed if books.orders.get(order, ("", ""))[1] not in LIVE]
    endless = [order for order in books.accepted if order not in books.orders]
    return [
        Finding(OVERSOLD, max(0, books.live_units - books.units), f"{books.live_units} units sold of {books.units}"),
        Finding(DUPLICATES, sum(1 for count in per_user.values() if count > 1), "users with several live orders"),
        Finding(SHARED, len(shared), f"of {books.placed.total()} answered; first: {min(shared, default='-')}"),
        Finding(LOST, len(lost), f"of {len(books.placed)} answered; first: {min(lost, default='-')}"),
        Finding(ENDLESS, len(endless), f"of {len(books.accepted)} answered; first: {min(endless, default='-')}"),
        unsold(books, books.live_units),
        drift(books, live),
        Finding(JOURNAL, books.journal, "accepted, but never settled"),
        report_differs(books),
    ]


def unsold(books: Books, live: int) -> Finding:
    """Units that are in no live order and cannot be bought, or can be but were refused to a user."""
    left = books.stock if books.redis_stock is None else min(books.stock, books.redis_stock)
    leaked = books.units - live - left
    if leaked > 0:
        return Finding(UNSOLD, leaked, f"{books.units} units, {live} sold, {left} can be bought")
    if left > 0 and books.sold_out > 0:
        return Finding(UNSOLD, left, f"left over, yet {books.sold_out} requests were told SOLD_OUT")
    return Finding(UNSOLD, 0, "")


def report_differs(books: Books) -> Finding:
    """Differences between the service's own report and the judge's count."""
    if not books.reports:
        return Finding(REPORT, 0, "")
    counted = settlement.Counted(
        units=books.units,
        stock=books.stock,
        orders=Counter(status for _, status in books.orders.values()),
        live_units=books.live_units,
        redis_stock=books.redis_stock,
        buyers=len(books.buyers),
        placed=len(books.placed),
        placed_at=books.placed_at,
        gone=books.gone,
    )
    wrong = settlement.differences(books.reports, counted)
    return Finding(REPORT, len(wrong), "; ".join(wrong))


def drift(books: Books, live: list[tuple[str, str]]) -> Finding:
    """Differences between the two stores in the stock or the buyers."""
    if books.redis_stock is None:
        return Finding(DRIFT, books.units, "Redis does not know the voucher")
    stock = abs(books.redis_stock - books.stock)
    users = {user for _, user in live}
    redis_only = len(books.buyers.keys() - users)
    postgres_only = len(users - books.buyers.keys())
    pairs = {(user, order) for order, user in live}
    other_order = sum(1 for user, order in books.buyers.items() if user in users and (user, order) not in pairs)
    return Finding(
        DRIFT,
        stock + redis_only + postgres_only + other_order,
        f"stock {books.redis_stock} in Redis, {books.stock} in PostgreSQL; buyers only in Redis {redis_only}, "
        f"only in PostgreSQL {postgres_only}, with another order {other_order}",
    )


def wrong(findings: list[Finding]) -> list[str]:
    return [finding.name for finding in findings if finding.count]
