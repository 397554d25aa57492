"""The cost of a purchase ticket: the same crowd at two vouchers, of which one requires tickets.

The tickets are made beforehand, in the format of docs/http.md and with the service's secret. So the crowd measures only
the check, and a second implementation tests the format.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import struct
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Callable, Iterator

from bench.bounds import BUYERS, Outcome, in_turn
from lib import common
from lib.common import Failure, Load, Voucher
from lib.servers import cpu_seconds
from lib.service import UNITS, Service, Side, ask

SECRET = "the-ticket-secret-of-the-bench"
USERS_A_SECOND = 60_000  # more than buy in one second
SOLD_OUT_USERS = 20_000  # that send requests again and again
TTL_S = 3600
PURCHASE_KIND, VERSION, MAC_BYTES = 1, 1, 16


@dataclass
class Crowd:
    load: Load
    cpu_ms: float  # of the service, for 1,000 answers


def ticket(voucher: Voucher, offer: int, user: str) -> str:
    signed = struct.pack(">BBIQQ", PURCHASE_KIND, VERSION, int(time.time()) + TTL_S, int(voucher.id), offer)
    mac = hmac.digest(SECRET.encode(), signed + user.encode(), hashlib.sha256)[:MAC_BYTES]
    return base64.urlsafe_b64encode(signed + mac).rstrip(b"=").decode()


@contextmanager
def tickets_of_a_crowd(service: Service, voucher: Voucher, users: int) -> Iterator[str]:
    """A file with a ticket for each user of oversell.lua's only thread."""
    status, document = ask(f"{service.url}/vouchers/{voucher.id}", "GET", {})
    if status != 200 or not json.loads(document)["ticket"]:
        raise Failure(f"the voucher takes no tickets: {status} {document}")
    offer = json.loads(document)["offer"]
    with tempfile.NamedTemporaryFile("w", prefix="seckill-tickets-") as file:
        file.writelines(f"{ticket(voucher, offer, f'u1-{number}')}\n" for number in range(1, users + 1))
        file.flush()
        yield file.name


def crowd_at(service: Service, voucher: Voucher, seconds: int, users: int, tickets: bool) -> Crowd:
    if not tickets:
        return measured_crowd(service, voucher, seconds, users=users)
    with tickets_of_a_crowd(service, voucher, users) as file:
        return measured_crowd(service, voucher, seconds, users=users, tickets=file)


def measured_crowd(service: Service, voucher: Voucher, seconds: int, **settings: object) -> Crowd:
    pids = service.pids["server"]
    before = cpu_seconds(pids)
    load = common.run_wrk([service.url], BUYERS, 1, seconds, path=f"/seckill/{voucher.id}", count=1, **settings)
    service.stores.wait_until_settled()
    return Crowd(load, (cpu_seconds(pids) - before) * 1e6 / load.requests)


def durable(side: Side, seconds: int, flip: bool) -> Outcome:
    users = USERS_A_SECOND * seconds

    def buyers(service: Service, tickets: bool) -> Callable[[], Crowd]:
        voucher = service.voucher(UNITS, ticket=tickets)
        return lambda: crowd_at(service, voucher, seconds, users, tickets)

    with side.serving(SECKILL_TICKET_SECRET=SECRET) as service:
        with_tickets, without = in_turn(flip, buyers(service, True), buyers(service, False))
    return kept(with_tickets, without, "placed")


def sold_out(side: Side, seconds: int, flip: bool) -> Outcome:
    def late(service: Service, tickets: bool) -> Callable[[], Crowd]:
        voucher = service.voucher(0, ticket=tickets)
        return lambda: crowd_at(service, voucher, seconds, SOLD_OUT_USERS, tickets)

    with side.serving(SECKILL_TICKET_SECRET=SECRET) as service:
        with_tickets, without = in_turn(flip, late(service, True), late(service, False))
    return kept(with_tickets, without, "sold_out")


def kept(with_tickets: Crowd, without: Crowd, answer: str) -> Outcome:
    wrong = ""
    for what, load in (("with", with_tickets.load), ("without", without.load)):
        others = load.requests - load.answers[answer]
        if others > 0:
            wrong = f"{others:,} of {load.requests:,} requests {what} a ticket were not {answer}: {load.others}"
    told = (
        f"{with_tickets.load.rate:,.0f} {answer}/s with a ticket, {without.load.rate:,.0f} without; the service's CPU for "
        f"1,000: {with_tickets.cpu_ms:.1f} and {without.cpu_ms:.1f} ms"
    )
    details = {
        "rps": with_tickets.load.rate,
        "plain_rps": without.load.rate,
        "cpu_ms": with_tickets.cpu_ms,
        "plain_cpu_ms": without.cpu_ms,
    }
    return Outcome(with_tickets.load.rate / without.load.rate, told, wrong, details)
