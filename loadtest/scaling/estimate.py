"""What a campaign needs, from the figures of the table `nodes`. Every line names its source.

An estimate, not a measurement: it multiplies the CPU of an order, which was measured with all processes on one machine,
by the orders a second, and fills each core to BUSY. More clients make larger batches, which cost less.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass

BUSY = 0.7  # of a core, at most: docs/install.md
CORES = 8  # of a machine: as many reactors for an instance; a PostgreSQL server
MASTERS = (1, *range(3, 256))  # a Redis Cluster has three at least
SHARDS = (1, 2, 4, 8, 16)  # each has as many slots as the others
DRAWS = 200  # of all vouchers over the nodes
ROW_RATE = 200_000  # orders a second of one voucher: docs/install.md
WAL_BYTES, AOF_BYTES = 343, 107  # of an order: docs/install.md
LINKS_MASTER, LINKS_SHARD = 2, 3  # of a reactor: docs/configuration.md
MAX_CONNECTIONS = 4096  # of an instance: SECKILL_MAX_CONNECTIONS
PG_CONNECTIONS = 100  # max_connections: PostgreSQL's default


@dataclass(frozen=True)
class Campaign:
    users: int = 10_000_000  # each asks once
    units: int = 1_000_000
    vouchers: int = 1_000
    seconds: int = 10


@dataclass
class Needs:
    row: dict  # the measured point that it is computed from
    refused: dict  # that of refusals
    orders: float  # a second
    refusals: float
    masters: int = 1
    shards: int = 1
    busiest_master: float = 1.0  # share of the orders
    busiest_shard: float = 1.0

    @property
    def reactors(self) -> int:
        """Each has one process of a shard for its orders, so it uses at most one of its cores."""
        return math.ceil(max(self.service_cores, self.postgres_cores * self.busiest_shard) / BUSY)

    @property
    def instances(self) -> int:
        return math.ceil(self.reactors / CORES)

    @property
    def service_cores(self) -> float:
        return cores(self.orders, ms(self.row, "server")) + cores(self.refusals, ms(self.refused, "server"))

    @property
    def redis_cores(self) -> float:
        return cores(self.orders, ms(self.row, "redis"))

    @property
    def postgres_cores(self) -> float:
        return cores(self.orders, ms(self.row, "postgres"))

    @property
    def in_progress(self) -> float:
        """Requests at a time: the rate times the wait."""
        return (self.orders * self.row["p99_ms"] + self.refusals * self.refused["p99_ms"]) / 1000

    @property
    def sent_bytes(self) -> float:
        """A second."""
        return self.orders * self.row["answer_bytes"] + self.refusals * self.refused["answer_bytes"]


def ms(row: dict, process: str) -> float:
    """CPU for 1,000 answers."""
    return row["cpu_s_per_1000"][process] * 1000


def cores(rate: float, ms_per_1000: float) -> float:
    return rate * ms_per_1000 / 1e6


def busiest_share(vouchers: int, nodes: int) -> float:
    """Chance decides which node has a voucher: the mean of many draws."""
    dice = random.Random(1)
    most = [max(Counter(dice.randrange(nodes) for _ in range(vouchers)).values()) for _ in range(DRAWS)]
    return sum(most) / DRAWS / vouchers


def fewest(counts, vouchers: int, cores_of_all: float, cores_of_one: float) -> tuple[int, float]:
    """So many nodes that the busiest one is not too busy. Also its share."""
    for count in counts:
        share = busiest_share(vouchers, count)
        if cores_of_all * share <= cores_of_one * BUSY:
            break
    return count, share


def needs(rows: list[dict], campaign: Campaign, order_seconds: float) -> Needs:
    """The first measured point, of the smallest first, that has as many kinds of nodes as its own costs need."""
    orders = campaign.units / order_seconds
    refusals = max(campaign.users / campaign.seconds - orders, 0)
    refused = next(row for row in rows if row["refused_all"])
    for row in rows:
        if row["vouchers"] != campaign.vouchers or row["refused_all"]:
            continue
        found = Needs(row, refused, orders, refusals)
        found.masters, found.busiest_master = fewest(MASTERS, campaign.vouchers, found.redis_cores, 1)
        found.shards, found.busiest_shard = fewest(SHARDS, campaign.vouchers, found.postgres_cores, CORES)
        if (found.masters > 1) <= (row["masters"] > 1) and (found.shards > 1) <= (row["shards"] > 1):
            break
    return found


# ---- what is printed ----


def show(rows: list[dict], campaign: Campaign = Campaign()) -> None:
    show_one_of_each(rows)
    show_campaign(rows, campaign)


def show_one_of_each(rows: list[dict]) -> None:
    print(f"\norders a second that a core carries, {BUSY:.0%} busy")
    print(f"{'vouchers':<12}{'a reactor':>12}{'Redis':>12}{'PostgreSQL':>12}{f'{CORES} cores':>12}  first limit of the stores")
    for row in rows:
        if row["masters"] == row["shards"] == 1:
            reactor, redis, postgres = (BUSY * 1e6 / ms(row, process) for process in ("server", "redis", "postgres"))
            server = min(postgres * CORES, row["vouchers"] * ROW_RATE)
            first = "Redis" if redis < server else "PostgreSQL"
            print(f"{row['vouchers']:<12,}{reactor:>12,.0f}{redis:>12,.0f}{postgres:>12,.0f}{server:>12,.0f}  {first}")


def show_campaign(rows: list[dict], campaign: Campaign) -> None:
    """Two cases: orders spread over the campaign, and all units gone in its first second."""
    cases = {f"{seconds} s": needs(rows, campaign, seconds) for seconds in (campaign.seconds, 1)}
    print(f"\n{campaign.users:,} users, {campaign.units:,} units, {campaign.vouchers:,} vouchers, {campaign.seconds} s")
    print(f"{'all units sell in':<34}" + "".join(f"{name:>12}" for name in cases) + "  source")
    for columns in zip(*map(lines_of, cases.values())):
        name, _, source = columns[0]
        print(f"{name:<34}" + "".join(f"{figure:>12}" for _, figure, _ in columns) + f"  {source}")
    print(f"\n{'times one of each':<34}" + "".join(f"{name:>12}" for name in cases))
    for (name, first), (_, second) in zip(*(times_one(case).items() for case in cases.values())):
        print(f"{name:<34}{first:>12.1f}{second:>12.1f}")


def lines_of(case: Needs) -> list[tuple[str, str, str]]:
    """Name, figure and source."""
    row, refused, requests = case.row, case.refused, case.orders + case.refusals
    file, log = case.orders * case.busiest_master * AOF_BYTES, case.orders * case.busiest_shard * WAL_BYTES
    return [
        ("requests a second", f"{requests:,.0f}", "users / seconds: each asks once"),
        ("orders a second", f"{case.orders:,.0f}", "units / seconds"),
        ("measured masters + shards", f"{row['masters']} + {row['shards']}", "the row of `nodes` whose CPU is used"),
        ("cores of the service", f"{case.service_cores:.1f}", "nodes: orders, and refusals"),
        ("reactors", f"{case.reactors:,}", f"{BUSY:.0%} of a core each"),
        ("instances", f"{case.instances:,}", f"{CORES} reactors each"),
        ("cores of Redis", f"{case.redis_cores:.1f}", "nodes"),
        ("masters", f"{case.masters:,}", f"{BUSY:.0%} of a core of the busiest"),
        ("the busiest's share", f"{case.busiest_master:.1%}", f"chance: {DRAWS} draws"),
        ("cores of PostgreSQL", f"{case.postgres_cores:.1f}", "nodes"),
        ("shards", f"{case.shards:,}", f"{BUSY:.0%} of {CORES} cores of the busiest; a power of 2"),
        ("the busiest's share", f"{case.busiest_shard:.1%}", f"chance: {DRAWS} draws"),
        ("connections of an instance", f"{case.in_progress / case.instances:,.0f}", "gateway's: requests a second x p99"),
        ("connections of a master", f"{case.reactors * LINKS_MASTER:,}", f"{LINKS_MASTER} a reactor"),
        ("connections of a shard", f"{case.reactors * LINKS_SHARD:,}", f"{LINKS_SHARD} a reactor"),
        ("bytes of a request", f"{row['request_bytes']:,.0f}", "counted: Chromium's head, through nginx"),
        ("bytes of a 201", f"{row['answer_bytes']:,.0f}", "counted"),
        ("bytes of a 409", f"{refused['answer_bytes']:,.0f}", "counted"),
        ("requests, Gbit/s", f"{requests * row['request_bytes'] * 8 / 1e9:.2f}", "all instances; without TLS, TCP and IP"),
        ("answers, Gbit/s", f"{case.sent_bytes * 8 / 1e9:.2f}", "all instances; without TLS, TCP and IP"),
        ("file of the busiest master, MB/s", f"{file / 1e6:.1f}", f"{AOF_BYTES} bytes an order: install.md"),
        ("log of the busiest shard, MB/s", f"{log / 1e6:.1f}", f"{WAL_BYTES} bytes an order: install.md"),
    ]


def times_one(case: Needs) -> dict[str, float]:
    """How much of one of each the campaign needs. The largest is the first limit."""
    return {
        f"an instance of {CORES} reactors": case.reactors / CORES,
        f"{MAX_CONNECTIONS:,} connections of an instance": case.in_progress / MAX_CONNECTIONS,
        "the core of one Redis": case.redis_cores / BUSY,
        f"{CORES} cores of one PostgreSQL": case.postgres_cores / BUSY / CORES,
        f"{PG_CONNECTIONS} connections of PostgreSQL": case.reactors * LINKS_SHARD / PG_CONNECTIONS,
        "the row of one voucher": case.orders / case.row["vouchers"] / ROW_RATE,
    }
