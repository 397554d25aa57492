"""Half-open, slow or cut links: 19, 20."""

from __future__ import annotations

import time

from driver import Run
from fault import Fault


def half_open(which: str, direction: str):
    def inject(run: Run) -> None:
        proxy = getattr(run.stack, f"{which}_proxy")
        proxy.swallow[direction] = True
        time.sleep(2.0)
        proxy.swallow[direction] = False

    return inject


def slow_links(run: Run) -> None:
    for proxy in (run.stack.redis_proxy, run.stack.pg_proxy):
        proxy.delay_ms = 100  # in each direction: 200 ms more for each reply
    time.sleep(2.0)
    for proxy in (run.stack.redis_proxy, run.stack.pg_proxy):
        proxy.delay_ms = 0


def lossy_links(run: Run) -> None:
    for proxy in (run.stack.redis_proxy, run.stack.pg_proxy):
        proxy.random.seed(run.rng.random())
        proxy.cut_chance = 0.05
    time.sleep(2.5)
    for proxy in (run.stack.redis_proxy, run.stack.pg_proxy):
        proxy.cut_chance = 0


def cut_at_every_byte(which: str, direction: str, most: int, step: int):
    def inject(run: Run) -> None:
        proxy = getattr(run.stack, f"{which}_proxy")
        for n in range(0, most, step):
            proxy.cut_after[direction] = n
            proxy.drop_all()
            time.sleep(0.05)
        proxy.cut_after[direction] = None
        proxy.drop_all()

    return inject


ROWS = [
    Fault("19a", "half-open: nothing reaches Redis", half_open("redis", "up"), proxied=True, unknown=0.85),
    Fault("19b", "half-open: nothing comes from Redis", half_open("redis", "down"), proxied=True, unknown=0.85),
    Fault("19c", "half-open: nothing reaches PostgreSQL", half_open("pg", "up"), proxied=True),
    Fault("19d", "half-open: nothing comes from PostgreSQL", half_open("pg", "down"), proxied=True),
    Fault("20a", "both links 200 ms slower", slow_links, proxied=True),
    Fault("20b", "both links lose 5 %", lossy_links, proxied=True, unknown=0.3),
    Fault(
        "20c", "Redis's answers cut at every byte", cut_at_every_byte("redis", "down", 120, 3),
        proxied=True, unknown=0.85,
    ),
    Fault("20d", "PostgreSQL's answers cut at every byte", cut_at_every_byte("pg", "down", 400, 9), proxied=True),
    Fault(
        "20e", "requests to Redis cut at every byte", cut_at_every_byte("redis", "up", 200, 5),
        proxied=True, unknown=0.85,
    ),
]
