"""Memory and descriptors run out: 26, 27."""

from __future__ import annotations

import signal
import time

from driver import Run
from fault import Fault
from machine import Deadline
from rows_tools import another
from stack import Broken, Instance

START_S = 10.0

def every_allocation_fails(where: str, most: int, step_by: int):
    """A separate instance, again and again: it may refuse to start, or reject a request, nothing else. Each step_by-th
    allocation fails; in full size, each one."""

    def inject(run: Run) -> None:
        number, fired = 1, 0
        while number <= most:
            one = another(run, {"SECKILL_FAIL_MALLOC": f"{number}{where}"})
            deadline = Deadline(run.patience(START_S))
            while not (is_ready := ready(one)) and one.alive() and not deadline.passed():
                time.sleep(0.01)
            hangs = not is_ready and one.alive()
            for n in range(3):
                if is_ready and one.alive():
                    run.buy(f"m{number}-{n}", one)
            code = one.end(signal.SIGTERM)
            says_why = "level=error" in one.text() or "seckill: " in one.text()
            if hangs or not (code == 0 and is_ready or code in (1, 2) and says_why and not where):
                how = "was never ready" if hangs else f"ended with {code}"
                run.leaks.append(f"allocation {number}{where}: {how}: {one.text()[-200:]}")
            if "name=malloc" not in one.text():
                break
            fired += 1
            number += 1 if run.terms.full else step_by
        if fired == 0:
            raise Broken("no allocation failed")

    return inject


def ready(one: Instance) -> bool:
    return one.ask("GET", "/readyz")[0] == 200


def descriptors_exhausted(run: Run) -> None:
    import resource

    old = resource.prlimit(run.first.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(run.first.pid, resource.RLIMIT_NOFILE, (run.first.fds() + 2, old[1]))
    run.stack.redis.call("CLIENT", "KILL", "TYPE", "normal")  # it must reconnect, and cannot
    time.sleep(1.5)
    resource.prlimit(run.first.pid, resource.RLIMIT_NOFILE, old)


ROWS = [
    Fault("26a", "the n-th allocation of a start fails", every_allocation_fails("", 400, 7), seconds=2.0),
    Fault("26b", "the n-th allocation of a request fails", every_allocation_fails("@request", 60, 1), seconds=2.0),
    Fault("27", "descriptors exhausted", descriptors_exhausted),
]
