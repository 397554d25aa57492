"""The bound `made_up_orders`: how much longer a payment takes while one user requests orders that do not exist.

As a program, `made_up_orders.py HOST PORT ORDER` prints `ready` once all connections are open. It requests ids made
from that order's RATE times a second, each time on a connection that has its last answer, until its input ends. Then it
prints, in JSON, how many requests it sent and the answers by status.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import selectors
import socket
import sys
import time
from collections import Counter, deque
from contextlib import contextmanager
from typing import Iterator

from bench import bounds
from bench.bounds import Outcome
from lib import common
from lib.service import Service, Side

MOST_MS = 10
CONNECTIONS = RATE = 800
ASKED_LEAST = 0.9  # of that rate
PAYMENT_EVERY_S = 0.005
PAYERS = 256
READY_S = END_S = 20
ORDERS_S = 2  # to buy the orders to be paid


def made_up_orders(side: Side, seconds: int, flip: bool) -> Outcome:
    with side.serving() as service:
        orders = unpaid_orders(service)
        asked: list[dict[str, object]] = []

        def beside() -> float:
            with questions(service.url, orders[0]) as others:
                time.sleep(bounds.LEAD_S)
                took = payment_p99_ms(service, orders, seconds)
                told, _ = others.communicate(timeout=END_S)
                asked.append(json.loads(told))
            return took

        beside_ms, alone_ms = bounds.in_turn(flip, beside, lambda: payment_p99_ms(service, orders, seconds))
    rate = asked[0]["asked"] / asked[0]["seconds"]
    told = (
        f"p99 of a payment {beside_ms:.1f} ms beside {rate:,.0f} questions/s for made-up orders "
        f"({asked[0]['answers']}), {alone_ms:.1f} ms alone"
    )
    wrong = "" if rate >= ASKED_LEAST * RATE else f"only {rate:,.0f} questions/s were asked"
    details = {"p99_ms": beside_ms, "alone_p99_ms": alone_ms} | asked[0]
    return Outcome(beside_ms - alone_ms, told, wrong, details)


def unpaid_orders(service: Service) -> list[str]:
    """The orders of a crowd; each is paid once."""
    voucher = service.voucher()
    common.run_wrk([service.url], PAYERS, 1, ORDERS_S, path=f"/seckill/{voucher.id}")
    service.stores.wait_until_settled()
    rows = service.stores.postgres.rows(f"SELECT id FROM voucher_order WHERE voucher_id = {voucher.id}")
    return [row[0] for row in rows]


def payment_p99_ms(service: Service, orders: list[str], seconds: int) -> float:
    """Payments of different orders, one after the other."""
    link = http.client.HTTPConnection(service.url.removeprefix("http://"), timeout=END_S)
    headers, took = common.admin_headers(service.token), []
    end = time.perf_counter() + seconds
    try:
        while time.perf_counter() < end:
            body = json.dumps({"reference": secrets.token_hex(8), "amount_cents": 100, "currency": "CNY"})
            began = time.perf_counter()
            link.request("POST", f"/orders/{orders.pop()}/pay", body, headers)
            answer = link.getresponse()
            text = answer.read().decode()
            took.append((time.perf_counter() - began) * 1000)
            if answer.status != 200:
                raise common.Failure(f"a payment was answered {answer.status}: {text}")
            time.sleep(PAYMENT_EVERY_S)
    except OSError as error:
        raise common.Failure(f"a payment: {error}") from error
    finally:
        link.close()
    return sorted(took)[len(took) * 99 // 100]


@contextmanager
def questions(url: str, order: str) -> Iterator:
    host, port = url.removeprefix("http://").split(":")
    with common.module_that_says(__name__, [host, port, order], "ready", READY_S) as child:
        yield child


# ---- the process ----


def made_up(order: str) -> str:
    """An id with the same slot and epoch."""
    random = secrets.token_hex(6)
    return f"{order[:15]}{random[:3]}-a{random[3:6]}-{random[6:]}{order[-6:]}"


def main() -> None:
    address, order = (sys.argv[1], int(sys.argv[2])), sys.argv[3]
    selector, free, answers = selectors.DefaultSelector(), deque(), Counter()
    for _ in range(CONNECTIONS):
        link = socket.create_connection(address, timeout=READY_S)
        link.setblocking(False)
        selector.register(link, selectors.EVENT_READ)
        free.append(link)
    selector.register(sys.stdin, selectors.EVENT_READ)
    print("ready", flush=True)
    asked, began, going = 0, time.monotonic(), True
    while going:
        while free and asked < (time.monotonic() - began) * RATE:
            head = f"GET /orders/{made_up(order)} HTTP/1.1\r\nHost: bench\r\nX-User-Id: curious\r\n\r\n"
            free.popleft().send(head.encode())
            asked += 1
        for key, _ in selector.select(1 / RATE):
            if key.fileobj is sys.stdin:
                going = False
                continue
            text = key.fileobj.recv(65536)
            if not text:
                selector.unregister(key.fileobj)
                continue
            answers[text[9:12].decode()] += 1
            free.append(key.fileobj)
    told = {"asked": asked, "seconds": time.monotonic() - began, "answers": dict(answers)}
    print(json.dumps(told), flush=True)
    os._exit(0)  # does not close hundreds of sockets one by one


if __name__ == "__main__":
    main()
