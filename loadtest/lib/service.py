"""A running build: its process on its fresh stores, and the steps of a turn."""

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
from typing import Callable, Iterator

from lib import common
from lib.common import Failure, Voucher
from lib.servers import Server, cpu_seconds, free_port, resident_bytes, start_server
from lib.stores import Stores

UNITS = 100_000_000  # more than any turn can sell: everybody wins
MAKERS = 8  # connections that create vouchers
VOUCHERS_TIMEOUT_S = 10

Pids = dict[str, list[int]]  # processes by role


@dataclass
class Service:
    stores: Stores
    servers: list[Server]  # its instances
    token: str
    options: argparse.Namespace

    @property
    def url(self) -> str:
        return self.servers[0].url

    @property
    def urls(self) -> list[str]:
        return [server.url for server in self.servers]

    @property
    def pids(self) -> Pids:
        return {"server": [server.process.pid for server in self.servers]} | self.stores.servers.pids

    def resident_bytes(self) -> int:
        return sum(resident_bytes(pid) for pid in self.pids["server"])

    def voucher(self, units: int = UNITS, **terms: object) -> Voucher:
        return common.create_voucher(self.url, self.token, "bench", units, **terms)

    def vouchers(self, number: int, units: int = 10) -> list[str]:
        """Creates many over a few connections, which share the stores' fsync. Returns their ids."""
        shares = [number // MAKERS + (maker < number % MAKERS) for maker in range(MAKERS)]
        with ThreadPoolExecutor(MAKERS) as makers:
            made = list(makers.map(self.make_vouchers, shares, [units] * MAKERS))  # raises what a maker raised
        return [voucher_id for ids in made for voucher_id in ids]

    def make_vouchers(self, number: int, units: int) -> list[str]:
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=VOUCHERS_TIMEOUT_S)
        body, headers = json.dumps(common.voucher_terms("bench", units)), common.admin_headers(self.token)
        ids = []
        try:
            for _ in range(number):
                connection.request("POST", "/admin/vouchers", body, headers)
                answer = connection.getresponse()
                text = answer.read().decode()
                if answer.status != 201:
                    raise Failure(f"{self.url}/admin/vouchers answered {answer.status}: {text}")
                ids.append(json.loads(text)["id"])
        except OSError as error:
            raise Failure(f"{self.url}/admin/vouchers: {error}") from error
        finally:
            connection.close()
        return ids

    def sold_out_voucher(self) -> Voucher:
        voucher = self.voucher(units=1)
        first, second = self.buy(voucher, "first"), self.buy(voucher, "second")
        if first[0] not in (201, 202) or second[0] != 409 or "SOLD_OUT" not in second[1]:
            raise Failure(f"the last unit did not sell out: {first} {second}")
        return voucher

    def buy(self, voucher: Voucher, user: str, **headers: str) -> tuple[int, str]:
        return ask(f"{self.url}/seckill/{voucher.id}", "POST", {"X-User-Id": user} | headers)

    def crowd(self, seconds: int, **settings: object) -> tuple[common.Load, dict[str, float]]:
        return measure_crowd(self.urls, self.pids, self.options, seconds, self.stores.wait_until_settled, **settings)


@dataclass
class Side:
    """A build with its stores: one of the two that take turns, or the only one."""

    stores: Stores
    options: argparse.Namespace
    folder: Path
    under: tuple[str, ...] = ()  # the command that runs it

    @contextmanager
    def serving(self, template: str = "", instances: int = 1, **env: object) -> Iterator[Service]:
        """The service on fresh stores (or on those of the template), until the turn is over."""
        token = secrets.token_hex(16)
        self.stores.renew(template)
        settings = self.stores.service_settings() | {"SECKILL_ADMIN_TOKEN": token}
        settings |= {name: str(value) for name, value in env.items()}
        service = Service(self.stores, [], token, self.options)
        try:
            for number in range(instances):
                service.servers.append(self.start(number, settings))
            yield service
        finally:
            for server in service.servers:
                server.stop()

    def start(self, number: int, settings: dict[str, str]) -> Server:
        build, port = self.stores.build, free_port()
        command = [*self.under, str(build.binary("seckill")), "--listen", f"127.0.0.1:{port}"]
        command += ["--reactors", str(self.options.reactors)]
        return start_server(command, port, "/readyz", self.folder / f"{build.name}-{number}.log", settings)


def measure_crowd(
    urls: list[str],
    pids: Pids,
    options: argparse.Namespace,
    seconds: int,
    settle: Callable[[], None] | None,
    **settings: object,
) -> tuple[common.Load, dict[str, float]]:
    """Runs wrk against servers, and waits until the work it left is settled: that is also the servers' work. Returns
    wrk's result and the CPU seconds for 1,000 answers."""
    before = {process: cpu_seconds(group) for process, group in pids.items()}
    load = common.run_wrk(urls, options.connections, options.wrk_threads, seconds, **settings)
    if load.requests == 0:
        raise Failure(f"nothing was answered within {seconds} s: the machine is too busy")
    if settle:
        settle()
    spent = {process: cpu_seconds(group) - before[process] for process, group in pids.items()}
    spent["client"] = load.cpu_seconds
    return load, {process: cpu * 1000 / load.requests for process, cpu in spent.items()}


def ask(url: str, method: str, headers: dict[str, str]) -> tuple[int, str]:
    request = urllib.request.Request(url, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
