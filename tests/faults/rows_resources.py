"""Memory and descriptors run out: 26, 27. No standard stream can be used: 69."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from crowd import Event
from driver import Run
from fault import Fault
from machine import Deadline
from rows_tools import another, buy, counter, open_voucher, restart
from stack import Broken, Instance, wait_for

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


WINNERS = 6
MOST = 100  # more allocations than there are
# The first purchase holds the loop, so that all that come meanwhile are one batch.
GATHERS = {"SECKILL_FAILPOINTS": "place.sent=pause:200", "SECKILL_DRAIN_TIMEOUT_MS": "1000"}


def a_batch_fails(all_from_then_on: bool):
    """A separate instance, again and again: several win in one batch. One allocation fails after the first answer of
    Redis, or that one and all after it. Each order that was accepted comes to an end."""

    def inject(run: Run) -> None:
        voucher = open_voucher(run, WINNERS * MOST)
        wait_for("its first order", lambda: buy(run, voucher, "first").status == 201)
        whole = gathers(run, voucher, "whole", {})
        if (calls := counter(whole, "seckill_script_calls_total")) > 3:
            raise Broken(f"{WINNERS} purchases were {calls} batches")
        number, failed = 1, True
        while failed and number <= MOST:
            fails = f"{number}{'+' if all_from_then_on else ''}@place.answered"
            one = gathers(run, voucher, f"f{number}", {"SECKILL_FAIL_MALLOC": fails})
            failed = "name=malloc" in one.text()
            code = one.end(signal.SIGTERM)
            if code not in (0, 1):
                run.leaks.append(f"allocation {fails}: ended with {code}: {one.text()[-200:]}")
            number += 1
        if number == 2:
            raise Broken("no allocation failed")

    return inject


def gathers(run: Run, voucher: str, users: str, env: dict[str, str]) -> Instance:
    """An instance at which several have bought in one batch, or tried to."""
    one = another(run, GATHERS | env)
    one.wait_ready()
    with ThreadPoolExecutor(WINNERS) as pool:
        pool.submit(buy_at, run, one, voucher, users)
        wait_for("the first purchase sent", lambda: "name=place.sent" in one.text(), pause=0.005)
        for n in range(1, WINNERS):
            pool.submit(buy_at, run, one, voucher, f"{users}-{n}", later=n % 2 == 0)
    return one


def buy_at(run: Run, one: Instance, voucher: str, user: str, later: bool = False) -> None:
    event = Event(time.time(), 0, "buy", user, voucher, one.number)
    headers = {"Prefer": "respond-async"} if later else {}
    event.hear(*one.ask("POST", f"/seckill/{voucher}", user, timeout=2.0, headers=headers))
    run.history.append(event)


def ready(one: Instance) -> bool:
    return one.ask("GET", "/readyz")[0] == 200


def descriptors_exhausted(run: Run) -> None:
    import resource

    old = resource.prlimit(run.first.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(run.first.pid, resource.RLIMIT_NOFILE, (run.first.fds() + 2, old[1]))
    run.stack.redis.call("CLIENT", "KILL", "TYPE", "normal")  # it must reconnect, and cannot
    time.sleep(1.5)
    resource.prlimit(run.first.pid, resource.RLIMIT_NOFILE, old)


def log_is_not_read(run: Run) -> None:
    """Standard error is a pipe that is full and has no reader, the other two streams are closed. Each refusal is a line."""
    fifo, script, binary = run.stack.folder / "unread", run.stack.folder / "unread.sh", run.first.binary
    os.mkfifo(fifo)
    pipe = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    script.write_text(f"#!/bin/sh\nexec '{binary}' <&- >&- 2>'{fifo}'\n")
    script.chmod(0o755)
    fill_pipe(pipe)
    run.first.binary = script
    try:
        restart(run.first, {"SECKILL_LOG_LEVEL": "debug", "SECKILL_TRACE": "on"})
        time.sleep(1.0)
        empty_pipe(pipe)
        wait_for("the number of lost lines", lambda: b'msg="log: lines dropped"' in empty_pipe(pipe))
        fill_pipe(pipe)
        code = run.first.end(signal.SIGTERM, 10)
        if code != 0:
            run.leaks.append(f"SIGTERM with a log that is not read: ended with {code}")
    finally:
        run.first.binary = binary
        os.close(pipe)
        fifo.unlink()
    run.first.run()
    run.first.wait_ready()


def fill_pipe(pipe: int) -> None:
    with suppress(BlockingIOError):
        while True:
            os.write(pipe, b"x" * 512)


def empty_pipe(pipe: int) -> bytes:
    text = b""
    with suppress(BlockingIOError):
        while True:
            text += os.read(pipe, 65536)
    return text


ROWS = [
    Fault("26a", "the n-th allocation of a start fails", every_allocation_fails("", 400, 7), seconds=2.0),
    Fault("26b", "the n-th allocation of a request fails", every_allocation_fails("@request", 60, 1), seconds=2.0),
    Fault("26e", "an allocation fails in a batch of several winners", a_batch_fails(False), seconds=2.0, unknown=0.2),
    Fault("26f", "... and all after it", a_batch_fails(True), seconds=2.0, unknown=0.3),
    Fault("27", "descriptors exhausted", descriptors_exhausted),
    Fault("69", "a log that is not read, closed streams", log_is_not_read, unknown=0.5),
]
