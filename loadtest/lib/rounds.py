"""One round of each contender of the benchmark: its server, its crowd, and the proof that it did the work.

A round counts only if the stores agree with it. The winners that wrk counted must be buyers in Redis and, where rows
were promised, rows in PostgreSQL. Every round of the service has fresh stores.
"""

from __future__ import annotations

import argparse
import csv
import functools
import io
import json
import re
import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path

from lib import common
from lib.builds import Build
from lib.common import Failure, Voucher
from lib.servers import CONTENDERS, Server, cpu_seconds, fill_in, free_port, start_server
from lib.service import UNITS, Side, measure_crowd
from lib.stores import StoreServers

NGINX_WORKERS = 2
WEBDIS_THREADS = 2
WEBDIS_POOL = 64
PIPELINE = 16  # of redis-benchmark; PIPELINE * connections = orders in flight
ORDER_ID = "01890a5d-ac96-774b-bcce-b302099a8057"  # where the client must send one; Redis only stores it

SESSION = "018bcfe5-6800-7000-8000-00000000005e"  # of no process: nobody settles its entries
BARE = Voucher("999999999999", UNITS)  # exists in Redis only


@dataclass
class Sample:
    """One contender in one round. CPU is in seconds for 1,000 answers, by process."""

    rps: float  # good answers only
    p50_ms: float
    p99_ms: float
    refused: int
    cpu: dict[str, float]
    committed_rps: float | None = None
    server_bytes: int | None = None
    buyer_bytes: float | None = None  # the buyers' hash only
    redis_buyer_bytes: float | None = None  # the whole growth of Redis's memory
    journal_bytes: int | None = None  # when all orders are settled
    more: dict[str, float] = field(default_factory=dict)  # what only one table has


# ---- the service ----


def durable(side: Side, seconds: int) -> Sample:
    return everybody_wins(side, seconds, respond_async=0)


def respond_async(side: Side, seconds: int) -> Sample:
    return everybody_wins(side, seconds, respond_async=1)


def everybody_wins(side: Side, seconds: int, respond_async: int) -> Sample:
    with side.serving() as service:
        stores, voucher = service.stores, service.voucher()
        empty_bytes = stores.redis_bytes()
        load, cpu = service.crowd(seconds, path=f"/seckill/{voucher.id}", **{"async": respond_async})
        sample, buyers = winners(load, cpu), stores.buyers()
        agree_on_buyers("service", load, buyers, side.options.connections)
        rows, last_order_at = stores.orders(voucher.id)
        if rows != buyers:
            raise Failure(f"{buyers} buyers in Redis, {rows} rows in PostgreSQL")
        sample.committed_rps = buyers / (last_order_at - load.started_at)
        sample.server_bytes = service.resident_bytes()
        sample.buyer_bytes = stores.buyers_bytes() / buyers
        sample.redis_buyer_bytes = (stores.redis_bytes() - empty_bytes) / buyers
    return sample


def sold_out(side: Side, seconds: int) -> Sample:
    with side.serving() as service:
        voucher = service.sold_out_voucher()
        load, cpu = service.crowd(seconds, path=f"/seckill/{voucher.id}")
    if load.not_ok != load.requests:
        raise Failure(f"{load.requests - load.not_ok} requests of {load.requests} were not told SOLD_OUT")
    return Sample(load.rate, load.p50_ms, load.p99_ms, load.not_ok + sum(load.broken.values()), cpu)


def winners(load: common.Load, cpu: dict[str, float]) -> Sample:
    refused = load.not_ok + sum(load.broken.values())
    return Sample((load.requests - load.not_ok) / load.seconds, load.p50_ms, load.p99_ms, refused, cpu)


def agree_on_buyers(name: str, load: common.Load, buyers: int, connections: int) -> None:
    """The buyers in Redis must be the winners, plus at most the requests that wrk left unanswered."""
    told, unanswered = load.requests - load.not_ok, connections + sum(load.broken.values())
    if not told <= buyers <= told + unanswered:
        raise Failure(f"{name}: {told} won of {load.requests} ({load.broken}), {buyers} buyers in Redis")


# ---- the others ----


class Others:
    """The ceilings, and servers that run this tree's script on Redis only: no journal is settled, no row is written.
    They run from start to end."""

    def __init__(self, build: Build, stores: StoreServers, options: argparse.Namespace, folder: Path):
        self.build, self.stores, self.options, self.folder = build, stores, options, folder
        self.redis = stores.redis
        self.servers: dict[str, Server] = {}
        self.redis_run = stores.redis_server("run_id")

    @functools.cached_property
    def script_sha(self) -> str:
        script = (common.ROOT / "lua" / "place_orders.lua").read_text()
        shared = re.compile(r"^-- include: (\S+)$", re.M)
        script = shared.sub(lambda line: (common.ROOT / "lua" / line[1]).read_text(), script)
        return self.redis.call("SCRIPT", "LOAD", stdin=script)[0]

    # -- servers --

    def start_servers(self, names: set[str]) -> None:
        if "ceiling" in names:
            self.start_ceiling()
        if "h2o" in names:
            self.start_h2o()
        if "webdis" in names:
            self.start_webdis()
        if "nginx_lua" in names:
            self.start_nginx()

    def stop_servers(self) -> None:
        for server in self.servers.values():
            server.stop()

    def start_ceiling(self) -> None:
        port = free_port()
        command = [str(self.build.binary("seckill-ceiling")), "--listen", f"127.0.0.1:{port}"]
        command += ["--reactors", str(self.options.reactors)]
        self.servers["ceiling"] = start_server(command, port, "/", self.folder / "ceiling.log")

    def start_h2o(self) -> None:
        port, threads = free_port(), self.options.reactors
        config = fill_in("h2o.conf.in", self.folder / "h2o.conf", PORT=port, THREADS=threads)
        command = ["h2o", "-m", "worker", "-c", str(config)]
        self.servers["h2o"] = start_server(command, port, "/ready", self.folder / "h2o.out")

    def start_webdis(self) -> None:
        port = free_port()
        config = fill_in(
            "webdis.json.in",
            self.folder / "webdis.json",
            FOLDER=self.folder,
            PORT=port,
            REDIS_HOST=self.redis.host,
            REDIS_PORT=self.redis.port,
            REDIS_AUTH=json.dumps(self.redis.password),
            THREADS=WEBDIS_THREADS,
            POOL=WEBDIS_POOL,
        )
        self.servers["webdis"] = start_server(["webdis", str(config)], port, "/PING", self.folder / "webdis.out")

    def start_nginx(self) -> None:
        port = free_port()
        config = fill_in(
            "nginx.conf.in",
            self.folder / "nginx.conf",
            FOLDER=self.folder,
            CONTENDERS=CONTENDERS,
            WORKERS=NGINX_WORKERS,
            PORT=port,
            REDIS_HOST=self.redis.host,
            REDIS_PORT=self.redis.port,
            REDIS_PASSWORD=self.redis.password or "",
            SCRIPT_SHA=self.script_sha,
            JOURNAL_MAX=UNITS,
            REDIS_RUN=self.redis_run,
        )
        command = ["/usr/sbin/nginx", "-p", str(self.folder), "-c", str(config), "-e", str(self.folder / "nginx.log")]
        self.servers["nginx_lua"] = start_server(command, port, "/ready", self.folder / "nginx.out")

    # -- rounds --

    def ceiling(self, seconds: int) -> Sample:
        return winners(*self.crowd("ceiling", seconds, path="/seckill/1"))

    def h2o(self, seconds: int) -> Sample:
        return winners(*self.crowd("h2o", seconds, path="/seckill/1"))

    def webdis(self, seconds: int) -> Sample:
        words = self.script_call()
        path = "/EVALSHA/" + "/".join(urllib.parse.quote(word, safe="") for word in words) + "/{user}/" + ORDER_ID
        return self.redis_decides("webdis", seconds, path=path, method="GET")

    def nginx_lua(self, seconds: int) -> Sample:
        return self.redis_decides("nginx_lua", seconds, path=f"/seckill/{BARE.id}")

    def redis_decides(self, name: str, seconds: int, **settings: object) -> Sample:
        self.open_bare_voucher()
        load, cpu = self.crowd(name, seconds, **settings)
        self.close_bare_voucher(name, load.requests - load.not_ok)
        return winners(load, cpu)

    def crowd(self, name: str, seconds: int, **settings: object) -> tuple[common.Load, dict[str, float]]:
        server = self.servers[name]
        pids = self.stores.pids | {"server": [server.process.pid]}
        return measure_crowd([server.url], pids, self.options, seconds, None, **settings)

    def redis_benchmark(self, seconds: int) -> Sample:
        self.open_bare_voucher()
        number, redis_pids = seconds * 100_000, self.stores.pids["redis"]
        command = ["redis-benchmark", "-h", self.redis.host, "-p", str(self.redis.port), "--csv", "-n", str(number)]
        command += ["-a", self.redis.password] if self.redis.password else []
        command += ["-c", str(max(1, self.options.connections // PIPELINE)), "-P", str(PIPELINE), "-r", "2000000000"]
        command += ["EVALSHA", *self.script_call(), "__rand_int__", ORDER_ID]
        before, client_before = cpu_seconds(redis_pids), common.child_cpu_seconds()
        output = common.run(command)
        cpu = {
            "redis": (cpu_seconds(redis_pids) - before) * 1000 / number,
            "client": (common.child_cpu_seconds() - client_before) * 1000 / number,
        }
        figures = list(csv.DictReader(io.StringIO(output)))[-1]
        self.close_bare_voucher("redis-benchmark", number)
        rps, p50_ms, p99_ms = (float(figures[name]) for name in ("rps", "p50_latency_ms", "p99_latency_ms"))
        return Sample(rps, p50_ms, p99_ms, 0, cpu)

    # -- the voucher that Redis alone knows --

    def bare_keys(self) -> list[str]:
        return [BARE.key(part) for part in ("voucher", "buyers", "journal", "repeats", "ended")]

    def script_call(self) -> list[str]:
        """The words of EVALSHA, up to the user."""
        call = [self.script_sha, "5", *self.bare_keys()]
        return [*call, str(UNITS), self.redis_run, "new", "0", "0-0", SESSION, "-", "1", "20"]

    def open_bare_voucher(self) -> None:
        self.redis.call("UNLINK", *self.bare_keys())  # left by an interrupted run
        terms = {"stock": UNITS, "begin_ms": 0, "end_ms": 1 << 42, "state": "open", "epoch": 1, "last": "epoch-1"}
        terms |= {"run": self.redis_run, "offer": 1}
        self.redis.call("HSET", BARE.key("voucher"), *(word for term in terms.items() for word in term))

    def close_bare_voucher(self, name: str, told: int) -> None:
        """A few in a thousand may be missing: redis-benchmark draws its users at random, and webdis answers an error
        of Redis with 200. If more are missing, the round has measured something else."""
        buyers = self.redis.number("HLEN", BARE.key("buyers"))
        if buyers < 0.998 * told:
            raise Failure(f"{name}: {told} won, {buyers} buyers in Redis")
        self.redis.call("UNLINK", *self.bare_keys())
        self.stores.rewrite_append_only_files()
