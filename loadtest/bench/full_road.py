"""The usual solution: servers in Go and Node that take an order to its row in PostgreSQL, as the service does.

Like the service they get fresh stores in every turn: a copy of its migrated database, an empty Redis database. A round
counts only if the books balance: the 201 that wrk saw are rows, each with its buyer, and the remaining units are
correct.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

from bench.tools import GOPATH
from lib import common
from lib.common import Failure, Voucher
from lib.rounds import Sample, agree_on_buyers, winners
from lib.servers import CONTENDERS, Server, free_port, start_server
from lib.service import UNITS, Pids, measure_crowd
from lib.stores import Stores

# Connections to PostgreSQL of all processes of a contender. All orders wait for one row, so more connections only add
# cost. Orders/s with 2, 4, 8, 16, 32, 64 were 2164, 2036, 1949, 1266, 1217, 918 for go and 614, 695, 651, 419, 448, 347
# for node. Both were not yet warm, on two cores that also had other work.
PG_POOL = {"go": 4, "go_batch": 1, "node": 4}
REDIS_POOL = 64  # Go's; Node pipelines on one connection in each process
NODE_WORKERS = 2
WARM_UP_S = 2
PROOF_S = 3
FEW = 300  # units of the sale that must sell out
MANY = 2 * FEW  # its buyers, who repeat their requests
DAY_MS = 24 * 3600 * 1000
LUA = CONTENDERS.parent.parent / "lua"


class FullRoad:
    def __init__(self, stores: Stores, options: argparse.Namespace, folder: Path):
        self.stores, self.options, self.folder = stores, options, folder
        self.script = folder / "place_orders.lua"
        self.commands = {
            "go": [str(folder / "contender-go")],
            "go_batch": [str(folder / "contender-go")],
            "node": ["node", str(CONTENDERS / "node" / "server.js")],
        }

    def prepare(self, names: set[str]) -> None:
        """Builds the contenders, and ends the run if one sells too much or too little."""
        if {"go", "go_batch"} & names:
            self.build_go()
        for name in self.commands:
            if name in names:
                self.prove(name)

    def build_go(self) -> None:
        env = {"GO111MODULE": "off", "GOPATH": str(GOPATH), "GOFLAGS": ""}
        sources = [str(source) for source in sorted((CONTENDERS / "go").glob("*.go"))]
        common.run(["go", "build", "-o", str(self.folder / "contender-go"), *sources], env=env)
        # The service's own script, as src/store/embed.cmake builds it.
        shared = (LUA / "shared" / "voucher.lua").read_text(encoding="utf-8")
        script = (LUA / "place_orders.lua").read_text(encoding="utf-8")
        self.script.write_text(script.replace("-- include: shared/voucher.lua\n", shared), encoding="utf-8")

    # -- rounds --

    def go(self, seconds: int) -> Sample:
        return self.everybody_wins("go", seconds)

    def go_batch(self, seconds: int) -> Sample:
        return self.everybody_wins("go_batch", seconds)

    def node(self, seconds: int) -> Sample:
        return self.everybody_wins("node", seconds)

    def everybody_wins(self, name: str, seconds: int) -> Sample:
        with self.serving(name) as server:
            self.warm_up(server)
            voucher, pids = put_on_sale(self.stores, UNITS), self.pids(server)
            path = f"/seckill/{voucher.id}"
            settle = self.stores.wait_until_settled
            load, cpu = measure_crowd([server.url], pids, self.options, seconds, settle, path=path, count=1)
            if load.answers["placed"] != load.requests - load.not_ok:
                raise Failure(f"{name}: answers that are neither 201 nor an error: {load.others}")
            rows, last_order_at = self.balance(name, voucher)
            agree_on_buyers(name, load, rows, self.options.connections)
            sample = winners(load, cpu)
            sample.committed_rps = rows / (last_order_at - load.started_at)
        return sample

    def warm_up(self, server: Server) -> None:
        """Another sale, until the code is compiled as it will run: a team's servers run before the rush."""
        path = f"/seckill/{put_on_sale(self.stores, UNITS).id}"
        common.run_wrk([server.url], self.options.connections, self.options.wrk_threads, WARM_UP_S, path=path)
        self.stores.wait_until_settled()

    def pids(self, server: Server) -> Pids:
        return {"server": [server.process.pid]} | self.stores.servers.pids

    @contextmanager
    def serving(self, name: str) -> Iterator[Server]:
        """The contender on fresh stores, until the turn is over."""
        port = free_port()
        self.stores.renew()
        where = self.stores.service_settings()
        env = {
            "LISTEN": f"127.0.0.1:{port}",
            "REDIS_URL": where["SECKILL_REDIS_URL"],
            "DATABASE_URL": where["SECKILL_DATABASE_URL"],
            "SCRIPTS": str(CONTENDERS),
            "PG_POOL": str(PG_POOL[name]),
            "REDIS_POOL": str(REDIS_POOL),
            "WORKERS": str(NODE_WORKERS),
            "NODE_ENV": "production",
            "PLACE_ORDERS": str(self.script) if name == "go_batch" else "",
        }
        server = start_server(self.commands[name], port, "/ready", self.folder / f"{name}.log", env)
        try:
            yield server
        finally:
            server.stop()

    # -- proof --

    def prove(self, name: str) -> None:
        """A small sale before the measurement: each unit is sold once, each user buys once."""
        with self.serving(name) as server:
            voucher = put_on_sale(self.stores, FEW)
            self.prove_one(name, server, voucher)
            settings = {"path": f"/seckill/{voucher.id}", "users": MANY, "count": 1}
            load = common.run_wrk([server.url], self.options.connections, self.options.wrk_threads, PROOF_S, **settings)
            self.stores.wait_until_settled()
            rows, _ = self.balance(name, voucher)
            refusals = load.answers["sold_out"], load.answers["already_ordered"]
            if rows != FEW or not all(refusals) or load.others:
                raise Failure(f"{name}: {FEW} units, {rows} rows; answers {load.answers} {load.others}")
            agree_on_buyers(name, load, rows - 1, self.options.connections)

    def prove_one(self, name: str, server: Server, voucher: Voucher) -> None:
        """The first buyer gets the location of the order, and its row is written."""
        headers = {"X-User-Id": "first"}
        request = urllib.request.Request(f"{server.url}/seckill/{voucher.id}", method="POST", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                order, status, location = json.load(answer), answer.status, answer.headers["Location"]
        except urllib.error.HTTPError as error:
            log = (self.folder / f"{name}.log").read_text(encoding="utf-8")
            raise Failure(f"{name} answered {error.code}: {log[-500:]}") from error
        rows = self.stores.postgres.rows(f"SELECT id FROM voucher_order WHERE voucher_id = {voucher.id}")
        if (status, location, rows) != (201, f"/orders/{order['id']}", [[order["id"]]]):
            raise Failure(f"{name} answered {status}, {location}, {order}; rows {rows}")

    def balance(self, name: str, voucher: Voucher) -> tuple[int, float]:
        """Returns the number of rows, and when the last one was written. Both stores must have sold the same number,
        and no more than the voucher had."""
        rows, last_order_at = self.stores.orders(voucher.id)
        [[left]] = self.stores.postgres.rows(f"SELECT stock FROM voucher_stock WHERE voucher_id = {voucher.id}")
        books = {
            "buyers": self.stores.redis.number("HLEN", voucher.key("buyers")),
            "taken in Redis": voucher.units - self.stores.redis.number("HGET", voucher.key("voucher"), "stock"),
            "taken in PostgreSQL": voucher.units - int(left),
        }
        if rows > voucher.units or set(books.values()) != {rows}:
            raise Failure(f"{name}: {rows} rows of {voucher.units} units, {books}")
        return rows, last_order_at


def put_on_sale(stores: Stores, units: int) -> Voucher:
    """Creates a voucher in both stores, without the service."""
    now_ms = int(time.time() * 1000)
    begin_ms, end_ms = now_ms - 60_000, now_ms + DAY_MS
    terms = f"'bench-{os.urandom(8).hex()}', 'bench', 100, {units}, {begin_ms}, {end_ms}"
    [[number]] = stores.postgres.rows(f"SELECT id FROM create_voucher({terms})")
    voucher = Voucher(number, units)
    [[slot, epoch]] = stores.postgres.rows(f"SELECT slot, epoch FROM voucher_stock WHERE voucher_id = {number}")
    info = "\n".join(stores.redis.call("INFO", "server"))
    run = info.split("run_id:")[1].split()[0]
    fields = {"state": "open", "stock": units, "begin_ms": begin_ms, "end_ms": end_ms, "epoch": epoch, "slot": slot}
    fields |= {"last": f"epoch-{epoch}", "run": run, "offer": 1}  # the fields that the service's script checks
    stores.redis.call("HSET", voucher.key("voucher"), *(word for field in fields.items() for word in field))
    return voucher
