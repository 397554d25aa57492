"""The cost of the service without requests: CPU, statements and Redis commands a second.

It may depend on the number of current vouchers, but not on the number of orders ever sold.
"""

from __future__ import annotations

import time
from dataclasses import astuple, dataclass

from bench.bounds import Outcome
from lib import common
from lib.servers import fine_cpu_ms
from lib.service import Service, Side
from lib.stores import info

VOUCHERS = (1, 1000, 5000)
ORDERS_SOLD = 200_000
SELLERS = 256  # connections
SELL_S = 120
CALM_S = 11  # an idle backend of PostgreSQL counts its last statements after 10 s
LEAST_S = 10  # of a measurement: an idle voucher is checked every few seconds
STATEMENTS_MORE = 1.0  # a second; allowed growth with the orders sold
COMMANDS_MORE = 5.0


@dataclass(frozen=True)
class Cost:
    """Per second."""

    server_ms: float
    redis_ms: float
    postgres_ms: float
    statements: float
    commands: float

    @property
    def cpu_ms(self) -> float:
        return self.server_ms + self.redis_ms + self.postgres_ms


def at_rest(side: Side, seconds: int, _flip: bool) -> Outcome:
    seconds = max(seconds, LEAST_S)
    costs = {(vouchers, 0): cost_with(side, seconds, vouchers, 0) for vouchers in VOUCHERS}
    costs[(1, ORDERS_SOLD)] = cost_with(side, seconds, 1, ORDERS_SOLD)
    fresh, sold = costs[(1, 0)], costs[(1, ORDERS_SOLD)]
    wrong = ""
    if sold.statements > fresh.statements + STATEMENTS_MORE or sold.commands > fresh.commands + COMMANDS_MORE:
        wrong = "statements or commands grow with the orders sold"
    details = {f"{vouchers} vouchers, {orders} orders": vars(cost) for (vouchers, orders), cost in costs.items()}
    return Outcome(sold.cpu_ms - fresh.cpu_ms, table_of(costs), wrong, details)


def cost_with(side: Side, seconds: int, vouchers: int, orders: int) -> Cost:
    with side.serving() as service:
        if orders > 0:
            sell(service, orders)
        else:
            service.vouchers(vouchers)
        service.stores.postgres.rows("VACUUM (ANALYZE);")  # now rather than during the measurement
        time.sleep(CALM_S)
        return cost_of(service, seconds)


def sell(service: Service, orders: int) -> None:
    voucher = service.voucher(units=orders)
    crowd = common.Wrk([service.url], SELLERS, 1, SELL_S, path=f"/seckill/{voucher.id}")
    try:
        common.wait_for(f"{orders} orders", lambda: service.stores.buyers() >= orders, SELL_S)
        crowd.stop()
    finally:
        crowd.kill()
    service.stores.wait_until_settled()
    sold, _ = service.stores.orders(voucher.id)
    if sold != orders:
        raise common.Failure(f"{sold} rows in PostgreSQL, {orders} units were sold")


def cost_of(service: Service, seconds: int) -> Cost:
    before, began = counters(service), time.monotonic()
    time.sleep(seconds)
    after, ended = counters(service), time.monotonic()
    return Cost(*((late - early) / (ended - began) for early, late in zip(astuple(before), astuple(after))))


def counters(service: Service) -> Cost:
    """Totals since the start. Reading them counts as one statement and one command."""
    cpu = {name: fine_cpu_ms(pids) for name, pids in service.pids.items()}
    [[statements]] = service.stores.postgres.rows(
        "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
    )
    stats = info(service.stores.redis, "stats")
    return Cost(
        cpu["server"], cpu["redis"], cpu["postgres"], float(statements), float(stats["total_commands_processed"])
    )


def table_of(costs: dict[tuple[int, int], Cost]) -> str:
    lines = [f"{'vouchers':>10}{'sold':>9}{'server':>9}{'redis':>9}{'postgres':>9}{'statements':>12}{'commands':>10}"]
    for (vouchers, orders), cost in costs.items():
        cpu = "".join(f"{value:>9.2f}" for value in (cost.server_ms, cost.redis_ms, cost.postgres_ms))
        lines.append(f"{vouchers:>10,}{orders:>9,}{cpu}{cost.statements:>12.1f}{cost.commands:>10.1f}")
    return "CPU ms, statements and commands of Redis a second\n" + "\n".join(lines)
