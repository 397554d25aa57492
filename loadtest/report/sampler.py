"""A thread that samples a rush several times a second, for the terminal and the report.

wrk cannot be queried before its end, so the samples come from the service, summed over all instances (readings.py).
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from dataclasses import dataclass
from typing import Callable

from lib.common import Voucher
from report.readings import Counts, Page, Reader, Reading

EACH_S = 0.25
TICKS_MAX = 2400  # above it, every other tick is dropped and the pause doubles
JOIN_S = 30


@dataclass(frozen=True)
class Tick:
    """Totals since the rush began; counts only grow."""

    at_s: float
    counts: Counts
    in_redis: int | None  # units left; None: unknown
    in_postgres: int | None


@dataclass(frozen=True)
class Step:
    """The counts between two ticks."""

    begin_s: float
    end_s: float
    counts: Counts

    def rate(self, series: str, label: str) -> float:
        return self.counts[series, label] / (self.end_s - self.begin_s)


def step(before: Tick, after: Tick) -> Step:
    return Step(before.at_s, after.at_s, less(after.counts, before.counts))


def steps(ticks: list[Tick]) -> list[Step]:
    return [step(before, after) for before, after in zip(ticks, ticks[1:]) if after.at_s > before.at_s]


def last_second(ticks: list[Tick]) -> Step:
    """Needs at least two ticks. At the beginning it covers less than a second."""
    since = min(bisect_left(ticks, ticks[-1].at_s - 1, key=lambda tick: tick.at_s), len(ticks) - 2)
    return step(ticks[since], ticks[-1])


def less(counts: Counts, base: Counts) -> Counts:
    return Counts({key: count - base[key] for key, count in counts.items()})


class Instance:
    """The counts of one instance since the rush began, also across its restarts."""

    def __init__(self, page: Page):
        self.started, self.base = page.started, page.counts
        self.before, self.counts = Counts(), Counts()  # `before`: by earlier processes

    def note(self, page: Page) -> None:
        if page.started != self.started:
            self.started, self.base, self.before = page.started, Counts(), self.counts
        self.counts = less(page.counts, self.base)
        for key, count in self.before.items():
            self.counts[key] += count


class Sampler:
    """Samples between entering and leaving the block. The ticks may be read at any time. `on_tick` is called with
    them on the sampler's thread, after the first two."""

    def __init__(
        self, urls: list[str], token: str, voucher: Voucher, on_tick: Callable[[list[Tick]], None] = lambda ticks: None
    ):
        self.reader, self.on_tick, self.each_s = Reader(urls, token, voucher), on_tick, EACH_S
        self.ticks: list[Tick] = []
        self.missed = 0  # pages that an instance did not return
        self.version = ""
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.sample, daemon=True)

    def __enter__(self) -> Sampler:
        first = self.reader.first()
        self.begin, self.version = first.at, first.pages[0].version
        self.instances = [Instance(page) for page in first.pages]
        self.note(first)
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.over.set()
        self.thread.join(JOIN_S)
        self.reader.close()

    def sample(self) -> None:
        """The last sample comes after the end, so that it includes everything."""
        ended = False
        while not ended:
            ended = self.over.wait(self.each_s)
            self.note(self.reader.read())
            self.on_tick(self.ticks)

    def note(self, reading: Reading) -> None:
        for instance, page in zip(self.instances, reading.pages):
            if page:
                instance.note(page)
            else:
                self.missed += 1
        counts = Counts()
        for instance in self.instances:
            counts.update(instance.counts)
        if len(self.ticks) >= TICKS_MAX:
            self.ticks, self.each_s = self.ticks[::2], self.each_s * 2
        self.ticks.append(Tick(reading.at - self.begin, counts, reading.in_redis, reading.in_postgres))
