"""Vouchers of which a user has one order altogether: 68."""

from __future__ import annotations

import time

from driver import Run
from fault import Fault
from life import Habits, Shoppers
from rows_instances import at, killed_at
from rows_many import flushall, killed
from rows_tools import buy, open_voucher

MEMBERS, UNITS, USERS, RATE, SECONDS = 3, 150, 300, 120, 4.0
SHOPPERS = Habits(moves=0.5, keyed=0.2, limit=2)


def scope(run: Run) -> list[str]:
    """Its vouchers: the run's own, and others that join it."""
    first = run.vouchers[0]
    joined = [open_voucher(run, UNITS, limit=2, scope=run.vouchers[-n]) for n in range(MEMBERS - 1)]
    run.names |= {id: f"{{{first}}}{{{id}}}" for id in joined}
    return [first, *joined]


def each_wants_all(then=None):
    """Each user buys each of them, at all instances at once, and gives some back."""

    def inject(run: Run) -> None:
        ports = [instance.port for instance in run.stack.instances]
        crowds = [(Shoppers(ports, run.rng, run.history, SHOPPERS), voucher) for voucher in scope(run)]
        for buyers, voucher in crowds:  # the same users
            buyers.start([voucher], SECONDS, RATE, USERS, True, False)
        if then is not None:
            time.sleep(SECONDS / 3)
            then(run)
        for buyers, _ in crowds:
            buyers.join()
        told = [event for event in run.history if event.code == "ALREADY_ORDERED"]
        orders = run.postgres.sql("select id, voucher_id from voucher_order where status in ('unpaid', 'paid')")
        whose = {order: voucher for order, voucher in orders}
        if not any(whose.get(event.order, event.voucher) != event.voucher for event in told):
            run.seen_meanwhile.append("nobody was told of an order of another voucher")

    return inject


def named(run: Run) -> None:
    """The answer names the order and its voucher, also when it is not the one that was asked for."""
    first, second, third = scope(run)
    won = run.definite(lambda: buy(run, first, "ann", 0))
    for instance in range(2):
        for voucher in (second, third, first):
            status, document = run.stack.instances[instance].ask("POST", f"/seckill/{voucher}", "ann")
            told = (status, document.get("code"), document.get("order_id"), document.get("voucher_id"))
            if told != (409, "ALREADY_ORDERED", won.order, first):
                run.seen_meanwhile.append(f"ann asked for {voucher} and was told {told}")


def a_scope(name: str, title: str, then, **more) -> Fault:
    return Fault(name, f"a scope of three vouchers, {title}", then, rate=0, units=UNITS, habits=SHOPPERS, **more)


ROWS = [
    a_scope("68a", "each user at all of them", each_wants_all(), short=True),
    a_scope("68b", "amid it FLUSHALL", each_wants_all(flushall), rebuilds=12, refused_202=40, unknown=0.6),
    a_scope("68c", "an instance killed", each_wants_all(killed), unknown=0.4),
    a_scope("68d", "killed: INSERT and COMMIT sent", each_wants_all(killed_at), first_env=at("writer.sent", 10), unknown=0.6),
    a_scope("68e", "whose order it is", named, unknown=0.9),
]
