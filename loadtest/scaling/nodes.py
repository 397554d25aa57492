"""The table `nodes`: a durable order on one Redis and on the masters of a cluster, on one PostgreSQL and on several
shards. All of them share this machine's cores, so look at the CPU of an order, not at the rate.

A turn is one of the other tables', with these figures in addition: which share of the orders the busiest node had, what
a service with so many links costs before anybody buys, and the bytes of a request and its answer.
"""

from __future__ import annotations

import os
import socket
import time
import urllib.parse
from dataclasses import dataclass, replace
from pathlib import Path

from lib import common
from lib.common import Failure
from lib.figures import Contender, contender_figures
from lib.rounds import Sample
from lib.servers import fine_cpu_ms
from lib.service import UNITS, Service, Side
from lib.stores import StoreServers, Stores, of_keys
from lib.turns import Run
from scaling.points import PATH, Point, Turns

NAME = "nodes"
VOUCHERS = (1, 10, 100, 1000)
COUNTS = ((1, 1), (3, 1), (1, 4), (3, 4))  # masters and shards
LOADED_S = 120  # until Redis has all vouchers
ESTABLISHED = "01"  # in /proc/net/tcp

# As Chromium sends it, and as deploy/nginx.conf passes it on.
REQUEST = """\
POST /seckill/{voucher} HTTP/1.1
Host: shop.example
X-User-Id: {user}
X-Forwarded-For: 198.51.100.123
X-Forwarded-Proto: https
Content-Length: 0
sec-ch-ua-platform: "Linux"
User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36
sec-ch-ua: "Not:A-Brand";v="8", "Chromium";v="156"
sec-ch-ua-mobile: ?0
Accept: */*
Origin: https://shop.example
Sec-Fetch-Site: same-origin
Sec-Fetch-Mode: cors
Sec-Fetch-Dest: empty
Referer: https://shop.example/
Accept-Encoding: gzip, deflate, br, zstd
Accept-Language: zh-CN,zh;q=0.9
Cookie: session=0123456789abcdef0123456789abcdef

"""


@dataclass(frozen=True)
class NodePoint(Point):
    masters: int = 1
    shards: int = 1
    refused: bool = False  # of each voucher one unit is sold before, so everybody is refused, from memory

    @property
    def name(self) -> str:
        return f"{self.vouchers:,} vouchers, {self.masters} + {self.shards}{' refused' if self.refused else ''}"


def points() -> list[NodePoint]:
    sold = [NodePoint(vouchers=v, masters=m, shards=s) for m, s in COUNTS for v in VOUCHERS]
    return [*sold, replace(sold[-1], refused=True, buyers=sold[-1].vouchers)]


def contenders(run: Run, side: Side) -> list[Contender]:
    """The side has one of each."""
    sides = {COUNTS[0]: side}
    for masters, shards in COUNTS[1:]:
        servers = StoreServers(masters=masters, shards=shards)
        run.set_up(servers)
        sides[masters, shards] = run.side(side.stores.build, servers)
    return [Contender(one.name, NAME, NodeTurns(sides[one.masters, one.shards], one).measure) for one in points()]


class NodeTurns(Turns):
    point: NodePoint

    def measure(self, seconds: int) -> Sample:
        point = self.point
        with self.side.serving(**self.settings()) as service:
            ids = service.vouchers(point.vouchers, 1 if point.refused else UNITS)
            wait_until_loaded(service.stores, point.vouchers)
            if point.refused:
                sell_out(service, ids)
            more = at_rest(service, seconds)
            sample, load = self.sell(service, ids, seconds)
            more |= busiest(service.stores) | bytes_of_one(service.url, ids[0], 409 if point.refused else 201)
        if point.refused:
            if load.not_ok != load.requests:
                raise Failure(f"{load.requests - load.not_ok} requests of {load.requests} were not refused")
            sample.rps = load.rate
        return replace(sample, more=more)


def wait_until_loaded(stores: Stores, vouchers: int) -> None:
    """Loading must not be part of the rest."""

    def loaded() -> bool:
        return sum(len(of_keys(redis, "voucher", "EXISTS {}")) for redis in stores.masters) == vouchers

    common.wait_for(f"{vouchers} vouchers in Redis", loaded, LOADED_S)


def sell_out(service: Service, ids: list[str]) -> None:
    """Each voucher has one unit."""

    def sold() -> bool:
        common.run_wrk([service.url], len(ids), 1, 1, path=PATH, vouchers=" ".join(ids))
        return service.stores.all_orders() == len(ids)

    common.wait_for(f"{len(ids)} vouchers sold out", sold, LOADED_S)


def at_rest(service: Service, seconds: int) -> dict[str, float]:
    """CPU ms a second, memory and links, while nobody buys."""
    before, began = {role: fine_cpu_ms(pids) for role, pids in service.pids.items()}, time.monotonic()
    time.sleep(seconds)
    spent_s = time.monotonic() - began
    cpu = {f"rest_{role}_ms": (fine_cpu_ms(pids) - before[role]) / spent_s for role, pids in service.pids.items()}
    return cpu | {"rest_bytes": service.resident_bytes(), "links": links(service)}


def links(service: Service) -> int:
    """The service's connections to both stores."""
    servers = service.stores.servers
    ports = {int(redis.port) for redis in servers.masters}
    ports |= {urllib.parse.urlsplit(server.owner_url).port for server in servers.shards}
    return sum(len(remote_ports(pid, ports)) for pid in service.pids["server"])


def remote_ports(pid: int, wanted: set[int]) -> list[int]:
    mine = {os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()}
    lines = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    found = [(int(line[2].split(":")[1], 16), line[9]) for line in lines if line[3] == ESTABLISHED]
    return [port for port, inode in found if port in wanted and f"socket:[{inode}]" in mine]


def busiest(stores: Stores) -> dict[str, float]:
    """The largest share that one node has of the orders."""
    kinds = {"redis": stores.buyers_by_master(), "postgres": stores.orders_by_shard()}
    return {f"busiest_{kind}": max(orders) / sum(orders) for kind, orders in kinds.items()}


def bytes_of_one(url: str, voucher: str, status: int) -> dict[str, float]:
    """Of a request and the answer with that status. HTTP only. A busy machine may answer 202 a few times before."""
    sizes: dict[str, float] = {}
    user = 0

    def answered() -> bool:
        nonlocal user
        user += 1
        request = REQUEST.format(voucher=voucher, user=f"u-{user:010}").replace("\n", "\r\n").encode()
        answer = exchange(url, request)
        sizes.update(request_bytes=len(request), answer_bytes=len(answer))
        return answer.startswith(b"HTTP/1.1 %d " % status)

    common.wait_for(f"{url} to answer {status}", answered, LOADED_S)
    return sizes


def exchange(url: str, request: bytes) -> bytes:
    parts, answer = urllib.parse.urlsplit(url), b""
    with socket.create_connection((parts.hostname, parts.port), timeout=10) as connection:
        connection.sendall(request)
        while more := connection.recv(65536):
            answer += more
            if is_whole(answer):
                break
    return answer


def is_whole(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(end) and len(body) >= int(lengths[0] if lengths else 0)


def rows_of(measured: list[Contender]) -> list[dict[str, object]]:
    return [
        {"masters": one.masters, "shards": one.shards, "vouchers": one.vouchers, "refused_all": one.refused}
        | contender_figures(contender)
        for one, contender in zip(points(), measured)
    ]
