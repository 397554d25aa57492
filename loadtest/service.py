"""A build at work: its process on its fresh stores, and what a turn does with it."""

from __future__ import annotations

import argparse
import http.client
import json
import secrets
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

import common
from common import Failure, Voucher
from servers import Server, cpu_seconds, free_port, resident_bytes, start_server
from stores import Stores

UNITS = 100_000_000  # more than any turn can sell: everybody wins
MAKERS = 8  # connections that make vouchers
VOUCHERS_TIMEOUT_S = 10


@dataclass
class Service:
    stores: Stores
    server: Server
    token: str
    options: argparse.Namespace

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def pids(self) -> dict[str, int]:
        return {"server": self.server.process.pid} | self.stores.servers.pids

    def resident_bytes(self) -> int:
        return resident_bytes(self.server.process.pid)

    def voucher(self, units: int = UNITS) -> Voucher:
        return common.create_voucher(self.url, self.token, "bench", units)

    def vouchers(self, number: int) -> None:
        """Makes many, over a few connections: they share the stores' fsync."""
        shares = [number // MAKERS + (maker < number % MAKERS) for maker in range(MAKERS)]
        with ThreadPoolExecutor(MAKERS) as makers:
            list(makers.map(self.make_vouchers, shares))  # raises what a maker raised

    def make_vouchers(self, number: int) -> None:
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=VOUCHERS_TIMEOUT_S)
        body, headers = json.dumps(common.voucher_terms("bench", 10)), common.admin_headers(self.token)
        try:
            for _ in range(number):
                connection.request("POST", "/admin/vouchers", body, headers)
                answer = connection.getresponse()
                text = answer.read().decode()
                if answer.status != 201:
                    raise Failure(f"{self.url}/admin/vouchers answered {answer.status}: {text}")
        except OSError as error:
            raise Failure(f"{self.url}/admin/vouchers: {error}") from error
        finally:
            connection.close()

    def sold_out_voucher(self) -> Voucher:
        voucher = self.voucher(units=1)
        first, second = self.buy(voucher, "first"), self.buy(voucher, "second")
        if first[0] not in (201, 202) or second[0] != 409 or "SOLD_OUT" not in second[1]:
            raise Failure(f"the last unit did not sell out: {first} {second}")
        return voucher

    def buy(self, voucher: Voucher, user: str, **headers: str) -> tuple[int, str]:
        return ask(f"{self.url}/seckill/{voucher.id}", "POST", {"X-User-Id": user} | headers)

    def crowd(self, seconds: int, **settings: object) -> tuple[common.Load, dict[str, float]]:
        return measure_crowd(self.url, self.pids, self.options, seconds, self.stores, **settings)


@dataclass
class Side:
    """A build with its stores: one of the two that take turns, or the only one."""

    stores: Stores
    options: argparse.Namespace
    folder: Path

    @contextmanager
    def serving(self, **env: object) -> Iterator[Service]:
        """The service on fresh stores, until the turn is over."""
        build, token, port = self.stores.build, secrets.token_hex(16), free_port()
        self.stores.renew()
        settings = {
            "SECKILL_DATABASE_URL": self.stores.service_url,
            "SECKILL_REDIS_URL": self.stores.redis.url,
            "SECKILL_ADMIN_TOKEN": token,
        } | {name: str(value) for name, value in env.items()}
        command = [str(build.binary("seckill")), "--listen", f"127.0.0.1:{port}"]
        command += ["--reactors", str(self.options.reactors)]
        server = start_server(command, port, "/readyz", self.folder / f"{build.name}.log", settings)
        try:
            yield Service(self.stores, server, token, self.options)
        finally:
            server.stop()


def measure_crowd(
    url: str,
    pids: dict[str, int],
    options: argparse.Namespace,
    seconds: int,
    journalled: Stores | None,
    **settings: object,
) -> tuple[common.Load, dict[str, float]]:
    """Runs wrk against a server, and waits for what it left to settle: that work is the server's as
    well. Gives what wrk saw and the CPU seconds for 1,000 answers."""
    before = {process: cpu_seconds(pid) for process, pid in pids.items()}
    load = common.run_wrk([url], options.connections, options.wrk_threads, seconds, **settings)
    if journalled:
        journalled.wait_until_settled()
    spent = {process: cpu_seconds(pid) - before[process] for process, pid in pids.items()}
    spent["client"] = load.cpu_seconds
    return load, {process: cpu * 1000 / load.requests for process, cpu in spent.items()}


def ask(url: str, method: str, headers: dict[str, str]) -> tuple[int, str]:
    request = urllib.request.Request(url, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
