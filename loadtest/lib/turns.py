"""A run of the benchmark, of the scaling tables or of the settings: what it has started, and its turns."""

from __future__ import annotations

import argparse
import resource
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from lib import builds
from lib.figures import Contender
from lib.rounds import Sample
from lib.service import Side
from lib.stores import REDIS_SETTINGS, StoreServers, Stores


class Run:
    """What a run has started; all of it ends when the stack is left."""

    def __init__(self, stack: ExitStack, options: argparse.Namespace):
        self.stack, self.options = stack, options
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="seckill-bench-")))
        self.servers = StoreServers()
        self.set_up(self.servers)

    def set_up(self, servers: StoreServers) -> None:
        self.stack.enter_context(servers.redis_set_to(REDIS_SETTINGS | {"appendfsync": self.options.appendfsync}))

    def side(self, build: builds.Build, servers: StoreServers | None = None) -> Side:
        stores = self.stack.enter_context(Stores(servers or self.servers, build).migrated())
        return Side(stores, self.options, self.folder)


def prepare_process() -> None:
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # for many connections, here and in child processes


def ignore_signals() -> None:
    """A second Ctrl-C must not leave servers and scratch folders behind."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def take_turns(contenders: list[Contender], options: argparse.Namespace) -> None:
    if options.rounds > 1:  # one round is a check, not a measurement
        for contender in contenders:
            contender.measure(1)  # warms up, does not count
    for number in range(options.rounds):
        for contender in contenders[:: 1 if number % 2 == 0 else -1]:
            sample = contender.measure(options.seconds)
            contender.samples.append(sample)
            progress(number, options, contender.name, sample)


def progress(number: int, options: argparse.Namespace, name: str, sample: Sample) -> None:
    said = f"round {number + 1} of {options.rounds}: {name:<18}{sample.rps:>10,.0f} answers/s"
    print(said, file=sys.stderr, flush=True)
