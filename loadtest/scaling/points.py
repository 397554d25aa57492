"""The points of the scaling tables: everybody wins a durable order, as in the benchmark, with one value changed."""

from __future__ import annotations

import copy
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Iterator

from lib import common
from lib.common import Failure, Load, Voucher
from lib.filling import fill
from lib.rounds import Sample, agree_on_buyers, winners
from lib.service import UNITS, Service, Side, measure_crowd

MAX_CONNECTIONS = 4096  # of the service, default
SPARE_CONNECTIONS = 192  # in addition to the crowd's
INSTANCES = 3
PATH = "/seckill/{voucher}"
SETTLE_S = 1.0
LOADED_S = 120  # until Redis has all buyers
SAMPLE_S = 0.1  # between two memory samples


@dataclass(frozen=True)
class Point:
    """The defaults of the benchmark and of the service."""

    connections: int = 256
    vouchers: int = 1
    batch_max: int = 512
    buyers: int = 0  # in the voucher before the crowd starts
    reactors: int = 1
    instances: int = 1
    wrk_threads: int = 1


@dataclass(frozen=True)
class Dimension:
    name: str  # of the point's field
    title: str
    values: tuple[int, ...]
    wrk_threads: int = 1

    def points(self) -> list[Point]:
        base = Point(wrk_threads=self.wrk_threads)
        return [replace(base, **{self.name: value}) for value in self.values]


DIMENSIONS = (
    Dimension("connections", "connections", (64, 256, 1024, 4096, 8000)),
    Dimension("vouchers", "vouchers on sale", (1, 10, 100, 1000, 5000)),
    Dimension("batch_max", "most orders in a batch", (16, 64, 128, 256, 512)),
    Dimension("buyers", "buyers in the voucher before", (1_000, 10_000, 100_000, 1_000_000)),
    Dimension("reactors", "reactors", (1, 2)),
    Dimension("instances", "instances", (1, INSTANCES), wrk_threads=INSTANCES),  # each wrk thread has one address
)


class Turns:
    """The turns of one point, on the stores of a side."""

    def __init__(self, side: Side, point: Point):
        options = copy.copy(side.options)
        for name in ("connections", "reactors", "wrk_threads"):
            setattr(options, name, getattr(point, name))
        self.point, self.side = point, replace(side, options=options)
        self.template, self.filled = "", Voucher("", UNITS)  # with the buyers from before

    def measure(self, seconds: int) -> Sample:
        if self.point.buyers and not self.template:
            self.fill()
        with self.side.serving(self.template, self.point.instances, **self.settings()) as service:
            held = self.wait_for_buyers(service) if self.template else {}
            ids = [self.filled.id] if self.template else service.vouchers(self.point.vouchers, UNITS)
            sample, _ = self.sell(service, ids, seconds)
        return replace(sample, **held)

    def sell(self, service: Service, ids: list[str], seconds: int) -> tuple[Sample, Load]:
        with peak_of_memory(service) as peak:
            load, cpu = measure_crowd(
                service.urls, service.pids, service.options, seconds, settle, path=PATH, vouchers=" ".join(ids)
            )
        sample = winners(load, cpu)
        sample.server_bytes = peak.bytes
        service.stores.wait_until_settled()
        sample.journal_bytes = service.stores.journal_bytes()
        self.agree(service, load)
        return sample, load

    def settings(self) -> dict[str, object]:
        most = max(MAX_CONNECTIONS, self.point.connections + SPARE_CONNECTIONS)
        return {"SECKILL_BATCH_MAX": self.point.batch_max, "SECKILL_MAX_CONNECTIONS": most}

    def agree(self, service: Service, load: Load) -> None:
        """Compares wrk's result with both stores."""
        buyers, rows = service.stores.buyers(), service.stores.all_orders()
        agree_on_buyers("service", load, buyers - self.point.buyers, self.point.connections)
        if rows != buyers:
            raise Failure(f"{buyers} buyers in Redis, {rows} rows in PostgreSQL")

    # -- buyers from before --

    def fill(self) -> None:
        """Runs once for all turns, which begin with a copy of the database. In each turn a rebuild loads the buyers
        into Redis."""
        stores = self.side.stores
        with self.side.serving() as service:
            self.filled = service.voucher()
            fill(stores.postgres, self.filled, self.point.buyers)
        stores.postgres.rows("VACUUM (ANALYZE) voucher_order;")
        self.template = stores.keep_as_template()

    def wait_for_buyers(self, service: Service) -> dict[str, float]:
        """Returns the memory of each buyer."""
        stores, buyers = service.stores, self.point.buyers

        def loaded() -> bool:
            return stores.redis.pairs(self.filled.key("voucher")).get("state") == "open" and stores.buyers() == buyers

        common.reconcile(service.url, service.token, self.filled)
        common.wait_for(f"{buyers} buyers in Redis", loaded, LOADED_S)
        grown = stores.redis_bytes() - stores.empty_bytes
        return {"buyer_bytes": stores.buyers_bytes() / buyers, "redis_buyer_bytes": grown / buyers}


def settle() -> None:
    """The work that wrk left is done within this time. The journals are checked later: querying thousands of them in
    Redis would affect the measurement."""
    time.sleep(SETTLE_S)


@dataclass
class Peak:
    bytes: int = 0


@contextmanager
def peak_of_memory(service: Service) -> Iterator[Peak]:
    """The service's largest resident memory at a time, summed over its instances."""
    peak, over = Peak(), threading.Event()

    def watch() -> None:
        while not over.wait(SAMPLE_S):
            peak.bytes = max(peak.bytes, service.resident_bytes())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        over.set()
        watcher.join()
