"""A sale that starts, or ends, in the middle of a fault. By Redis's clock nothing is accepted outside its window;
strangers learn which side they are on, and winners get their order.

The suite, Redis and the instances share one machine's clock, so the window can be judged from outside, unless a row
moves Redis's clock.
"""

from __future__ import annotations

import itertools
import signal
import time

from driver import Run
from fault import Fault
from rows_tools import buy, clock_env, crowd, open_voucher, set_clock, within
from stack import wait_for

EDGE_S = 0.05  # a request in progress at that moment may be on either side
MARK_S = 0.4  # SECKILL_SOLD_OUT_MARK_MS of caching, and some slack
SOLD_S = 5.0
STRANGERS = 2000  # more than enough: most ask once


def judge_window(run: Run, voucher: str, began: float, begins: float, ends: float) -> None:
    """By this machine's clock; `began`: when the first could ask. Only answered requests can be wrong."""
    told, late_s = run.seen_meanwhile, run.machine_late_s
    for event in (e for e in run.history if e.what == "buy" and e.voucher == voucher and e.status):
        new = event.status in (201, 202)
        edge_s = EDGE_S + late_s(event.began - EDGE_S, event.ended + EDGE_S)
        if new and (event.ended < begins - edge_s or event.began > ends + edge_s):
            told.append(f"{event.user} was given an order outside the window")
        if event.code == "NOT_STARTED" and event.began > begins + MARK_S + late_s(begins, event.began):
            told.append(f"{event.user} was told NOT_STARTED {event.began - begins:.1f} s after the start")
        if event.code == "ENDED" and event.ended < ends - edge_s:
            told.append(f"{event.user} was told ENDED {ends - event.ended:.1f} s before the end")
    heard = {e.code for e in run.history if e.voucher == voucher}
    for code, due in (("NOT_STARTED", begins > began), ("ENDED", ends < time.time())):
        if due and code not in heard:
            told.append(f"no client was told {code}")


def around_the_start(fault):
    def inject(run: Run) -> None:
        began = time.time()
        begins = began + 1.5
        voucher = open_voucher(run, 300, begin_s=1.5)
        buyers = crowd(run, [voucher], 3.0, 350, STRANGERS)
        time.sleep(max(0.0, begins - 0.3 - time.time()))
        fault(run)
        run.healed()
        buyers.join()
        judge_window(run, voucher, began, begins, time.time() + 60)
        if not any(e.status in (201, 202) and e.voucher == voucher for e in run.history):  # on a late machine
            late = itertools.count()
            within(run, "an order after the start", lambda: buy(run, voucher, f"late{next(late)}").status == 201, SOLD_S)

    return inject


def around_the_end(fault):
    """Earlier winners ask again after the end."""

    def inject(run: Run) -> None:
        began = time.time()
        ends = began + 1.8
        voucher = open_voucher(run, 3000, end_s=1.8)
        buyers = crowd(run, [voucher], 2.6, 350, STRANGERS)
        time.sleep(max(0.0, ends - 0.4 - time.time()))
        late = buy(run, voucher, "just-in-time")
        fault(run)
        run.healed()
        buyers.join()
        names = (f"late{n}" for n in itertools.count())  # the crowd may end too early to be asked
        within(run, "a stranger told after the end", lambda: buy(run, voucher, next(names)).code == "ENDED", 5)
        judge_window(run, voucher, began, began - 60, ends)
        winners = {e.user: e for e in list(run.history) if e.voucher == voucher and e.status in (201, 202)}
        for user in [late.user, *list(winners)[:20]]:
            told = lambda: buy(run, voucher, user, run.rng.randrange(2)).code
            if not within(run, f"winner {user} told after the end", lambda: told() == "ALREADY_ORDERED", 5):
                break

    return inject


def redis_killed(run: Run) -> None:
    run.redis.end(signal.SIGKILL)
    time.sleep(0.6)
    run.redis.run(*run.stack.redis_settings)


def postgres_killed(run: Run) -> None:
    run.postgres.stop_immediate()
    time.sleep(1.0)
    run.postgres.run()


def flushall(run: Run) -> None:
    run.redis.call("FLUSHALL")


def started_and_set_back(run: Run) -> None:
    """Redis's clock goes back to before the start: strangers are refused for it, and winners still get their order."""
    file = run.stack.folder / "clock"
    run.redis.preload = clock_env(run, file)
    run.redis.end(signal.SIGTERM)
    run.redis.run(*run.stack.redis_settings)
    run.redis.preload = {}
    for instance in run.stack.instances:
        wait_for(f"{instance.name} ready", instance.ready)
    voucher = open_voucher(run, 100, begin_s=-20)
    winners = []
    for n in range(20):
        user = f"early{n}"
        if within(run, "a winner", lambda: buy(run, voucher, user).status == 201, 5):
            winners.append(user)
    set_clock(file, -60)
    for n, winner in enumerate(winners):
        for instance in range(2):
            stranger = buy(run, voucher, f"stranger{n}", instance)
            if stranger.code != "NOT_STARTED":
                run.seen_meanwhile.append(f"a stranger was told {stranger.status} {stranger.code} before the start")
            again = buy(run, voucher, winner, instance)
            if again.code != "ALREADY_ORDERED":
                run.seen_meanwhile.append(f"{winner} had won and was told {again.status} {again.code}")
    set_clock(file, 0)


LONG_MARK = {"SECKILL_SOLD_OUT_MARK_MS": "1000"}

ROWS = [
    Fault("39a", "a sale starts while Redis is away", around_the_start(redis_killed), rate=0, rebuilds=6, unknown=0.5),
    Fault("39b", "a sale starts amid FLUSHALL", around_the_start(flushall), rate=0, rebuilds=6, unknown=0.2, full=True),
    Fault("39c", "a sale ends while PostgreSQL is away", around_the_end(postgres_killed), rate=0, unknown=0.2),
    Fault(
        "39d",
        "a sale ends while Redis is away",
        around_the_end(redis_killed),
        rate=0,
        rebuilds=6,
        refused_202=5,
        unknown=0.5,
        full=True,
    ),
    Fault("39e", "Redis's clock back to before the start", started_and_set_back, rate=0, env=LONG_MARK, rebuilds=6),
]
