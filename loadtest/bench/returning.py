"""How soon others learn that an order has ended: the buyer who gets its unit, and the client who waits for its change.

Two instances, one voucher with one unit. Its owner cancels at one instance. At the other the next buyer tries until the
unit is sold, or the owner's long poll waits. Meanwhile a crowd buys another voucher. The figure is the longest time of
a round. The unit's time starts when the cancel was answered, which is when it has returned; the long poll's starts
before the cancel was sent.
"""

from __future__ import annotations

import json
import secrets
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Callable

from bench.bounds import BUYERS, Outcome
from lib import common
from lib.common import Failure, Voucher
from lib.service import Service, Side, ask

MOST_MS = 300
RETURNS = 20  # in a round
CROWD_S = 60  # longer than the returns take
TRY_S = 0.002
GIVE_UP_S = 10
LEAD_S = 0.1  # until the other one waits


@dataclass(frozen=True)
class Waiter:
    """A client that waits at one instance for the end of an order."""

    url: str
    voucher: Voucher
    order: str
    owner: str
    next_buyer: str


def returned_unit(side: Side, _seconds: int, _flip: bool) -> Outcome:
    return measured(side, sells_again, "a unit was sold")


def long_poll(side: Side, _seconds: int, _flip: bool) -> Outcome:
    return measured(side, is_told, "a long-poll was answered")


def measured(side: Side, wait: Callable[[Waiter], float], what: str) -> Outcome:
    with side.serving(instances=2) as service:
        path = f"/seckill/{service.voucher().id}"
        crowd = common.Wrk([service.url], BUYERS, 1, CROWD_S, seed=secrets.randbelow(1 << 30), path=path)
        try:
            took = returns(service, service.voucher(units=1), wait)
            load = crowd.stop()
        finally:
            crowd.kill()
    told = (
        f"{what} {statistics.median(took):.0f} ms after a cancel, median of {len(took)}, and {max(took):.0f} ms at most, "
        f"beside {load.rate:,.0f} answers/s"
    )
    return Outcome(max(took), told, details={"ms": took, "rps": load.rate})


def returns(service: Service, voucher: Voucher, wait: Callable[[Waiter], float]) -> list[float]:
    """Returns times in ms."""
    took, urls = [], service.urls
    order, _ = buy_at_last(urls[0], voucher, "buyer-0")
    with ThreadPoolExecutor(1) as other:
        for number in range(RETURNS):
            here, there = urls[number % 2], urls[(number + 1) % 2]
            for url in (here, there):
                status, text = ask(f"{url}/seckill/{voucher.id}", "POST", {"X-User-Id": "late"})
                if "SOLD_OUT" not in text:
                    raise Failure(f"the only unit is sold, and {url} answers {status}: {text}")
            waiter = Waiter(there, voucher, order, f"buyer-{number}", f"buyer-{number + 1}")
            waiting = other.submit(wait, waiter)
            time.sleep(LEAD_S)
            asked = time.perf_counter()
            status, text = ask(f"{here}/orders/{order}/cancel", "POST", {"X-User-Id": waiter.owner})
            answered = time.perf_counter()
            if status != 200:
                raise Failure(f"a cancel was answered {status}: {text}")
            since = answered if wait is sells_again else asked
            took.append(max(0.0, waiting.result() - since) * 1000)
            order, _ = buy_at_last(there, voucher, waiter.next_buyer)
    return took


def sells_again(waiter: Waiter) -> float:
    return buy_at_last(waiter.url, waiter.voucher, waiter.next_buyer)[1]


def is_told(waiter: Waiter) -> float:
    """Returns when the long poll was answered."""
    url = f"{waiter.url}/orders/{waiter.order}?wait=30&while=unpaid"
    status, text = ask(url, "GET", {"X-User-Id": waiter.owner})
    now = time.perf_counter()
    if status != 200 or json.loads(text)["status"] != "cancelled":
        raise Failure(f"a long-poll was answered {status}: {text}")
    return now


def buy_at_last(url: str, voucher: Voucher, user: str) -> tuple[str, float]:
    """Tries until the user has a committed order. Returns it, and when it was bought."""
    end = time.perf_counter() + GIVE_UP_S
    while time.perf_counter() < end:
        status, text = ask(f"{url}/seckill/{voucher.id}", "POST", {"X-User-Id": user})
        bought, answer = time.perf_counter(), json.loads(text)
        order = answer.get("order_id") or answer.get("id")
        if order:
            ask(f"{url}/orders/{order}?wait=5&while=pending", "GET", {"X-User-Id": user})
            return order, bought
        if status != 409:
            raise Failure(f"a purchase was answered {status}: {text}")
        time.sleep(TRY_S)
    raise Failure("the unit of a cancelled order was not sold")
