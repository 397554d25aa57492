"""A sale reopens while every instance refuses from memory, and its winners repeat at all of them: 38.

The refusals last for seconds, and users ask continuously at every instance, so that refusals are cached up to the moment
at which the sale sells again. A winner then asks every instance at once, and none may refuse him (winners_are_told)."""

from __future__ import annotations

import random
import threading
import time
from typing import Callable

from crowd import Event
from driver import Run
from fault import PLAIN, Fault
from life import move, tell
from machine import Deadline
from rows_life import expect
from rows_tools import HOUR_S, buy, instant, key, open_voucher
from stack import Broken, wait_for

CACHE_S = 1.5
ROUNDS = 3
ASKERS = 3  # at each instance
WON_S = CACHE_S + 5.0

Step = Callable[[Run, str], None]


class Askers:
    """Users who ask one instance after the other until they win, then every instance twice; then others follow."""

    def __init__(self, run: Run, voucher: str):
        self.run, self.voucher, self.wins, self.over = run, voucher, 0, threading.Event()
        self.asked = count = len(run.stack.instances)  # so many of the instances, but by winners
        self.threads = [threading.Thread(target=self._ask, args=(n,), daemon=True) for n in range(ASKERS * count)]

    def __enter__(self) -> "Askers":
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()

    def _ask(self, number: int) -> None:
        rng, count, user = random.Random(number), len(self.run.stack.instances), 0
        while not self.over.is_set():
            if self.asked == 0:
                time.sleep(0.01)
                continue
            event = buy(self.run, self.voucher, f"asker{number}-{user}", rng.randrange(self.asked))
            if event.status in (201, 202):
                for instance in [*range(count)] * 2:
                    buy(self.run, self.voucher, event.user, instance)
                user += 1
                self.wins += 1
            time.sleep(0.01)

    def stagger(self) -> None:
        """All instances cache their refusals, each from another moment on. If all caches ended at once, who won at the first
        instance without one would find no other with one."""
        self.asked = 0
        time.sleep(CACHE_S + 0.1)  # the refusals of now are over
        count = len(self.run.stack.instances)
        for self.asked in range(1, count + 1):
            time.sleep(CACHE_S / 2 / count)

    def win(self) -> None:
        """Wins once more, after it has reopened."""
        before, deadline = self.wins, Deadline(WON_S)
        while self.wins == before:
            if deadline.passed():
                self.run.miss(f"nobody has won within {WON_S} s")
                return
            time.sleep(0.01)
        time.sleep(0.2)  # others also win and repeat


def operate(run: Run, voucher: str, method: str, what: str, body: dict | None = None, instance: int = 0) -> None:
    deadline, path = Deadline(10), f"/admin/vouchers/{voucher}" + what
    while (answer := run.stack.instances[instance].ask(method, path, body=body))[0] in (0, 503):
        if deadline.passed():
            break
        time.sleep(0.05)
    if answer[0] != 200:
        raise Broken(f"{method} {what} {body}: {answer}")


def pause(run: Run, voucher: str) -> None:
    operate(run, voucher, "POST", "/pause")


def resume(run: Run, voucher: str) -> None:
    operate(run, voucher, "POST", "/resume")


def extend(run: Run, voucher: str) -> None:
    operate(run, voucher, "PATCH", "", {"end_at": instant(HOUR_S)})


def start_now(run: Run, voucher: str) -> None:
    operate(run, voucher, "PATCH", "", {"begin_at": instant(-HOUR_S)})


def unit_more(run: Run, voucher: str) -> None:
    """PostgreSQL has a unit that Redis does not know, without a change number: the next rebuild loads it."""
    run.postgres.sql(
        f"update voucher_stock set units = units + 1, stock = stock + 1 where voucher_id = {voucher};"
        " insert into stock_change (voucher_id, change, units)"
        f" select id, change - coalesce((select count(*) from stock_change where voucher_id = {voucher}), 0), 1"
        f" from seckill_voucher where id = {voucher}"
    )


def reconcile(run: Run, voucher: str) -> None:
    unit_more(run, voucher)
    operate(run, voucher, "POST", "/reconcile")


def return_unit(run: Run, voucher: str) -> None:
    """Its first buyer cancels: who won a unit that returned keeps it, and is judged."""
    live = f"select id, user_id from voucher_order where voucher_id = {voucher} and status = 'unpaid' order by id limit 1"
    order, user = run.postgres.sql(live)[0]
    bought = Event(time.time(), time.time(), "buy", user, voucher, 0, order=order)
    expect(run, tell(run, move("cancel", bought, 0)), 200, state="cancelled")


def nothing(run: Run, voucher: str) -> None:
    """It refuses by itself: all units are sold."""


def again(units: int, refuse: Step, reopen: Step):
    """A sale that is reopened a few times, and refuses in between."""

    def inject(run: Run) -> None:
        voucher = open_voucher(run, units)
        with Askers(run, voucher) as askers:
            askers.win()
            for _ in range(ROUNDS):
                refuse(run, voucher)
                if refuse is nothing:
                    askers.stagger()
                else:
                    time.sleep(CACHE_S / 2)  # every instance caches the refusal
                reopen(run, voucher)
                askers.win()

    return inject


def once(begin_s: float, end_s: float, reopen: Step):
    """Sales that have not begun, or have ended; each is reopened once."""

    def inject(run: Run) -> None:
        for _ in range(ROUNDS):
            voucher = open_voucher(run, 5000, begin_s, end_s, allow_past=True)
            wait_for("opened", lambda: run.redis.call("HGET", key(voucher, "voucher"), "state") == "open")
            with Askers(run, voucher) as askers:
                time.sleep(CACHE_S / 2)
                reopen(run, voucher)
                askers.win()

    return inject


def row(name: str, title: str, inject: Callable[[Run], None], instances: int = 2, rebuilds: int = 0, **more) -> Fault:
    env = {"SECKILL_SOLD_OUT_MARK_MS": str(int(CACHE_S * 1000))}
    return Fault(
        name, title, inject, instances=instances, rate=50, seconds=3.0, habits=PLAIN, env=env, rebuilds=rebuilds,
        unknown=1.0, **more,
    )


ROWS = [
    row("38a", "resumed while all instances cache refusals", again(5000, pause, resume), short=True),
    row("38b", "the same, three instances", again(5000, pause, resume), instances=3),
    row("38c", "extended when it is over, three instances", once(-2 * HOUR_S, -HOUR_S, extend), instances=3),
    row("38d", "begun earlier, three instances", once(HOUR_S, 2 * HOUR_S, start_now), instances=3),
    row("38f", "units return after sell-out", again(ROUNDS, nothing, return_unit)),
    row("38g", "reconciled, with a unit more, three instances", again(2, nothing, reconcile), instances=3, rebuilds=ROUNDS),
]
