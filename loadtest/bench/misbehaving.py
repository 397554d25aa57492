"""The bound `misbehaving`: 200 of a server's 256 connections misbehave, and 56 buy.

As a program, `misbehaving.py HOST PORT` prints `ready` once all connections have begun, and runs until its input ends.
Then it prints, in JSON, how often a connection was cut and how often one was opened. A connection that is cut is opened
again.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import Iterator

from bench import bounds
from bench.bounds import Outcome
from lib import common
from lib.service import Service, Side

CONNECTIONS = 256  # of the server
MISBEHAVING = 200
BUYERS = CONNECTIONS - MISBEHAVING
LIMIT_MS = 2000  # of header, body and reader: short, so that connections are cut during the measurement
LISTED = 50  # vouchers: the list that non-reading clients request
TICK_S = 0.2  # between two bytes of a slow client, and how long a short-lived connection stays
WARM_S = 1
LEAD_S = LIMIT_MS / 1000 + 0.5  # the first have been cut when the buyers start
READY_S = END_S = 20

HEAD = b"POST /seckill/1 HTTP/1.1\r\nHost: bench\r\nX-User-Id: slow\r\n"
LIST = b"GET /vouchers HTTP/1.1\r\nHost: bench\r\n\r\n" * 20


def misbehaving(side: Side, seconds: int, flip: bool) -> Outcome:
    limits = {"SECKILL_IDLE_TIMEOUT_MS": LIMIT_MS, "SECKILL_REQUEST_TIMEOUT_MS": LIMIT_MS}
    with side.serving(SECKILL_MAX_CONNECTIONS=CONNECTIONS, **limits) as service:
        service.vouchers(LISTED)
        buyers_rate(service, WARM_S)
        seen: list[dict[str, int]] = []

        def beside() -> float:
            with crowd(service.url) as others:
                time.sleep(LEAD_S)
                rate = buyers_rate(service, seconds)
                told, _ = others.communicate(timeout=END_S)
                seen.append(json.loads(told))
            return rate

        trouble, alone = bounds.in_turn(flip, beside, lambda: buyers_rate(service, seconds))
    told = (
        f"{trouble:,.0f} orders/s of {BUYERS} buyers beside {MISBEHAVING} that misbehave ({seen[0]['opened']:,} times "
        f"opened, {seen[0]['cut']:,} times cut), {alone:,.0f} alone"
    )
    wrong = "" if seen[0]["cut"] >= MISBEHAVING / 2 else f"only {seen[0]['cut']} connections were cut"
    details = {"committed_rps": trouble, "alone_committed_rps": alone} | seen[0]
    return Outcome(trouble / alone, told, wrong, details)


def buyers_rate(service: Service, seconds: int) -> float:
    voucher = service.voucher()
    load = common.run_wrk([service.url], BUYERS, 1, seconds, path=f"/seckill/{voucher.id}")
    service.stores.wait_until_settled()
    rate = bounds.committed_rps(service, voucher, load)
    if rate == 0:
        raise common.Failure(f"{BUYERS} buyers get nothing")
    return rate


@contextmanager
def crowd(url: str) -> Iterator[subprocess.Popen]:
    host, port = url.removeprefix("http://").split(":")
    with common.module_that_says(__name__, [host, port], "ready", READY_S) as child:
        yield child


# ---- the process ----


class Client:
    """One connection at a time: a slow header, a slow body, a client that does not read, or one that reconnects
    again and again."""

    def __init__(self, number: int, address: tuple[str, int]):
        self.kind, self.address = number % 4, address
        self.opened = self.cut = 0
        self.open()

    def open(self) -> None:
        self.link = socket.socket()
        if self.kind == 2:
            self.link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.link.settimeout(READY_S)
        self.link.connect(self.address)
        self.link.setblocking(False)
        self.opened += 1
        self.send((HEAD + b"X-Slow: ", HEAD + b"Content-Length: 10000\r\n\r\n", LIST, HEAD)[self.kind])

    def send(self, data: bytes) -> None:
        try:
            self.link.send(data)
        except BlockingIOError:
            pass
        except OSError:
            self.cut += 1
            self.link.close()
            self.open()

    def misbehave(self) -> None:
        if self.kind == 3:
            self.link.close()
            self.open()
        else:
            self.send((b"x", b"x", LIST)[self.kind])


def main() -> None:
    address = sys.argv[1], int(sys.argv[2])
    clients = [Client(number, address) for number in range(MISBEHAVING)]
    print("ready", flush=True)
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    began = time.monotonic()
    for turn in range(1, sys.maxsize):
        # Spread evenly: not all of them at the beginning of a tick.
        if selector.select(max(0, began + turn * TICK_S / 10 - time.monotonic())):
            break
        for client in clients[turn % 10 :: 10]:
            client.misbehave()
    sums = {"opened": sum(client.opened for client in clients), "cut": sum(client.cut for client in clients)}
    print(json.dumps(sums), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
