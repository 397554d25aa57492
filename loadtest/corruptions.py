"""Wrong books that the judge must notice: each breaks one promise and leaves the rest correct."""

from __future__ import annotations

import copy
import uuid
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Callable

import settlement
from judge import DRIFT, DUPLICATES, ENDLESS, JOURNAL, LOST, OVERSOLD, REPORT, SHARED, UNSOLD, Books
from lib import common


@dataclass(frozen=True)
class Plant:
    """One fault: in PostgreSQL (rolled back), in Redis (undone), or in the answers."""

    what: str
    expected: str
    sql: str = ""
    redis: list[tuple[str, ...]] = field(default_factory=list)
    undo: list[tuple[str, ...]] = field(default_factory=list)
    edit: Callable[[Books], Books] = lambda books: books


def plants(voucher: common.Voucher, books: Books) -> list[Plant]:
    """For a voucher that is sold out. Each plant leaves everything else correct, so that a checker that confuses two
    verdicts is also detected."""
    (order, user), (other_order, other_user) = sorted(books.live)[:2]
    stranger, terms, buyers = str(uuid.uuid4()), voucher.key("voucher"), voucher.key("buyers")
    forget, recall = ("HDEL", buyers, user), ("HSET", buyers, user, order)
    cancel = f"UPDATE voucher_order SET status = 'cancelled' WHERE id = '{order}'"
    swap = f"UPDATE voucher_order SET id = '{stranger}' WHERE id = '{order}'"
    again = f"INSERT INTO voucher_order (id, slot, user_id, voucher_id) VALUES ('{stranger}', 0, '{user}', {voucher.id})"

    def unanswered(seen: Books) -> Books:
        return replace(seen, placed=seen.placed - Counter([order]))

    return [
        Plant(
            "an order more than there are units",
            OVERSOLD,
            f"INSERT INTO voucher_order (id, slot, user_id, voucher_id) VALUES ('{stranger}', 0, 'stranger', {voucher.id})",
            [("HSET", buyers, "stranger", stranger)],
            [("HDEL", buyers, "stranger")],
        ),
        Plant(
            "a second order of one user",
            DUPLICATES,
            f"DROP INDEX voucher_order_live; UPDATE voucher_order SET user_id = '{user}' WHERE id = '{other_order}'",
            [("HDEL", buyers, other_user)],
            [("HSET", buyers, other_user, other_order)],
        ),
        Plant("two 201s with one order", SHARED, edit=lambda seen: replace(seen, placed=seen.placed + Counter([order]))),
        Plant("a row missing for a 201", LOST, swap, [("HSET", buyers, user, stranger)], [recall]),
        Plant(
            "a row refused after a 201",
            LOST,
            f"UPDATE voucher_order SET status = 'refused', reason = 'SOLD_OUT' WHERE id = '{order}'; {again}",
            [("HSET", buyers, user, stranger)],
            [recall],
        ),
        Plant("a row cancelled after a 201", LOST, f"{cancel}; {again}", [("HSET", buyers, user, stranger)], [recall]),
        Plant(
            "a row missing for a 202",
            ENDLESS,
            swap,
            [("HSET", buyers, user, stranger)],
            [recall],
            lambda seen: replace(unanswered(seen), accepted=seen.accepted | {order}),
        ),
        Plant("a unit in no order", UNSOLD, cancel, [forget], [recall], unanswered),
        Plant(
            "a unit left over after SOLD_OUT",
            UNSOLD,
            f"{cancel}; UPDATE voucher_stock SET stock = stock + 1 WHERE voucher_id = {voucher.id}",
            [forget, ("HINCRBY", terms, "stock", "1")],
            [recall, ("HINCRBY", terms, "stock", "-1")],
            unanswered,
        ),
        Plant(
            "a unit too many in Redis",
            DRIFT,
            redis=[("HINCRBY", terms, "stock", "1")],
            undo=[("HINCRBY", terms, "stock", "-1")],
        ),
        Plant("a buyer missing in Redis", DRIFT, redis=[forget], undo=[recall]),
        Plant(
            "a buyer only in Redis",
            DRIFT,
            redis=[("HSET", buyers, "stranger", stranger)],
            undo=[("HDEL", buyers, "stranger")],
        ),
        Plant("a buyer with another order in Redis", DRIFT, redis=[("HSET", buyers, user, stranger)], undo=[recall]),
        Plant("a voucher missing in Redis", DRIFT, edit=lambda seen: replace(seen, redis_stock=None, buyers={})),
        Plant(
            "an entry left in the journal",
            JOURNAL,
            redis=[("XADD", voucher.key("journal"), "*", "epoch", "0", "orders", f"{order} {user}")],
            undo=[("XTRIM", voucher.key("journal"), "MAXLEN", "0")],
        ),
    ]


def forged(seen: Books, forge: Callable[[dict], None]) -> Books:
    """Changes one instance's report."""
    reports = copy.deepcopy(seen.reports)
    forge(max(reports, key=lambda report: report["time_to_durable"]["count"]))
    return replace(seen, reports=reports)


def miscounts(report: dict) -> None:
    report["orders"]["unpaid"]["orders"] -= 1
    report["orders"]["paid"]["orders"] += 1


def forgeries() -> dict[str, Callable[[dict], None]]:
    """Reports that a correct service would not return for these books."""

    def hides(report: dict) -> None:
        report["wrong"] = {"UNITS": {"is": 1, "should_be": 2}}

    return {
        "a report of a paid order that is not": miscounts,
        "a report of units that are not": lambda report: report["units"].update(remaining=1),
        "a report of more units offered": lambda report: report["units"].update(offered=report["units"]["offered"] + 1),
        "a report that balances too soon": lambda report: report.update(verdict="balanced"),
        "a report that hides what is wrong": hides,
        "a report of a duplicate": lambda report: report["checks"].update(duplicates=1),
        "a report of another Redis": lambda report: report["redis"].update(buyers=0),
        "a report that has not read Redis": lambda report: report.update(redis={"books": "unknown"}),
        "a report without some times": lambda report: report["time_to_durable"].update(count=0),
        "a report of too many times": lambda report: report["time_to_durable"].update(count=10**6),
    }


def without_a_row(seen: Books) -> Books:
    """An order that was answered with 201 has no row, and its buyer has another one in both stores."""
    order, user = min(seen.live)
    stranger = str(uuid.uuid4())
    orders = {stranger if one == order else one: row for one, row in seen.orders.items()}
    quantities = {stranger if one == order else one: units for one, units in seen.quantities.items()}
    return replace(seen, orders=orders, quantities=quantities, buyers=seen.buyers | {user: stranger})


def with_deaths(told: Books) -> list[tuple[str, list[str], Books]]:
    """Books of a rush in which another instance than the reporting ones died; each with what the judge must find."""
    gone = frozenset(["another"])
    count = max(report["time_to_durable"]["count"] for report in told.reports)
    most = next(report for report in told.reports if report["time_to_durable"]["count"] == count)
    own = {settlement.instance_of(most): count}

    def counts(number: int) -> Callable[[dict], None]:
        return lambda report: report["time_to_durable"].update(count=number)

    def died(seen: Books) -> Books:
        return replace(seen, gone=gone, placed_at=own)

    return [
        ("times that died with an instance", [], replace(forged(told, counts(0)), gone=gone, placed_at={})),
        ("times of a living instance, another one died", [], died(told)),
        ("a living instance without some times", [REPORT], died(forged(told, counts(count - 1)))),
        ("a living instance of too many times", [REPORT], died(forged(told, counts(10**6)))),
        ("a living instance that miscounts", [REPORT], died(forged(told, miscounts))),
        ("an order that died with its instance", [LOST], died(without_a_row(told))),
    ]
