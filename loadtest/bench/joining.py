"""How fast users join a line: their rate, beside that of orders in the same run. Both answers follow a commit."""

from __future__ import annotations

from bench.bounds import BUYERS, Outcome, in_turn
from lib import common
from lib.common import Failure, Load, Voucher
from lib.service import UNITS, Service, Side

PLACES = 10_000_000  # more than join in a phase


def crowd_at(service: Service, voucher: Voucher, seconds: int, wait: int) -> Load:
    load = common.run_wrk([service.url], BUYERS, 1, seconds, path=f"/seckill/{voucher.id}", count=1, wait=wait)
    service.stores.wait_until_settled()
    return load


def joining(side: Side, seconds: int, flip: bool) -> Outcome:
    with side.serving() as service:
        line, sale = service.voucher(1, waitlist=PLACES), service.voucher(UNITS)
        if service.buy(line, "first")[0] not in (201, 202):
            raise Failure("the only unit is not sold")
        joins, orders = in_turn(
            flip, lambda: crowd_at(service, line, seconds, 1), lambda: crowd_at(service, sale, seconds, 0)
        )
    wrong = ""
    for what, load, answer in (("joins", joins, "accepted"), ("orders", orders, "placed")):
        if (others := load.requests - load.answers[answer]) > 0:
            wrong = f"{others:,} of {load.requests:,} {what} were not {answer}: {load.answers} {load.others}"
    told = f"{joins.rate:,.0f} joins/s, {orders.rate:,.0f} orders/s"
    return Outcome(joins.rate / orders.rate, told, wrong, {"joins_rps": joins.rate, "orders_rps": orders.rate})
