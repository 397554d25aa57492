"""How late the machine itself is: a bound is judged only after allowing for it.

A probe wakes every few milliseconds. It records how late it was, and how long a small write took to reach the disk. A
machine that gives its processor or disk to other programs delays the service, both stores and the suite alike, but the
bounds of a row are meant for the service. So the probe's delay is added to them (`Deadline`, `Delays.between_s`). On a
quiet machine it is almost zero, and the bound is the row's own.

The probe is a thread of the suite: a late check of the suite itself is no fault of the service either.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
import time
from bisect import bisect_right
from collections import deque

TICK_S = 0.01
SYNC_S = 0.1  # between two writes to the disk
NORMAL_S = 0.002  # a wake or write with at most this delay is on time
KEPT_S = 600.0
MOST = 3.0  # a bound grows at most by this factor: however late the machine is, a wait ends


class Delays:
    """Consecutive delays, without overlaps."""

    def __init__(self, delays: list[tuple[float, float]] = ()):
        self.all = list(delays)
        self.ends = [ended for _, ended in self.all]
        self.sums = [0.0, *itertools.accumulate(ended - began for began, ended in self.all)]

    def until_s(self, moment: float) -> float:
        """How late the machine was in total until then."""
        over = bisect_right(self.ends, moment)
        under_way = moment - self.all[over][0] if over < len(self.all) else 0.0
        return self.sums[over] + max(0.0, under_way)

    def between_s(self, began: float, ended: float) -> float:
        return max(0.0, self.until_s(ended) - self.until_s(began))


class Machine:
    """One for each process of the suite; its times are those of time.time(), as the history's."""

    def __init__(self) -> None:
        self.delays: deque[tuple[float, float]] = deque()  # when the probe should have continued, and when it did
        self.thread: threading.Thread | None = None
        self.pid = 0

    def watch(self) -> None:
        """Watches for as long as the process lives. A worker is a fork, in which threads do not continue."""
        if self.pid == os.getpid():
            return
        self.pid, self.delays = os.getpid(), deque()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self) -> None:
        with tempfile.TemporaryFile(dir="/var/tmp") as file:
            synced = time.time()
            while True:
                due = time.time() + TICK_S
                time.sleep(TICK_S)
                self._note(due, time.time())
                if time.time() > synced + SYNC_S:
                    due = time.time()
                    os.pwrite(file.fileno(), b"x", 0)
                    os.fdatasync(file.fileno())
                    synced = time.time()
                    self._note(due, synced)

    def _note(self, due: float, now: float) -> None:
        if now - due > NORMAL_S:
            self.delays.append((due, now))
        while self.delays and self.delays[0][1] < now - KEPT_S:
            self.delays.popleft()

    def since(self, began: float) -> Delays:
        found = []
        for delay in reversed(self.delays.copy()):
            if delay[1] <= began:
                break
            found.append(delay)
        return Delays(found[::-1])


MACHINE = Machine()


class Deadline:
    """This many seconds on a machine that is on time."""

    def __init__(self, seconds: float):
        self.began, self.seconds = time.time(), seconds

    def passed(self) -> bool:
        return self.spent_s() > self.seconds

    def spent_s(self) -> float:
        """The time since it began, without the machine's delays."""
        now = time.time()
        late_s = MACHINE.since(self.began).between_s(self.began, now)
        return max(now - self.began - late_s, (now - self.began) / MOST)


def self_test() -> list[str]:
    """Self-test of the sums."""
    delays = Delays([(1.0, 2.0), (3.0, 3.5)])
    cases = {(0, 9): 1.5, (1.5, 3.25): 0.75, (2.2, 2.8): 0, (0, 1): 0, (4, 9): 0, (1.25, 1.5): 0.25}
    return [
        f"late by {found} s between {began} and {ended}, not {due} s"
        for (began, ended), due in cases.items()
        if (found := delays.between_s(began, ended)) != due
    ]
