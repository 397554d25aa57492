"""30: the same crowd twice, on the same instances. The second time needs no more memory."""

from __future__ import annotations

import asyncio
import time
from collections import deque

from crowd import Event, Link
from driver import Run
from fault import Fault
from stack import ADMIN_TOKEN, Broken, Instance, wait_for

GROWTH = 0.02
FAILED = 0.05  # of the requests: a machine that stalls for a moment does not matter here
LINKS = 12  # connections to each instance
BUYERS, ROUNDS = 700, 2
ADMIN = f"Authorization: Bearer {ADMIN_TOKEN}\r\n"
ASYNC = "Prefer: respond-async\r\n"


def resident_kb(one: Instance) -> int:
    with open(f"/proc/{one.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


async def ask(run: Run, one: Instance, link: Link, question: tuple) -> bool:
    """Whether it failed."""
    method, path, user, headers = question
    event = Event(time.time(), 0, "buy", user, path.rpartition("/")[2], one.number)
    status, document = await link.ask(method, path, user, headers)
    if method == "POST":
        event.hear(status, document)
        run.history.append(event)
    return status == 0 or status >= 500


async def crowd(run: Run, one: Instance, questions: list[tuple]) -> None:
    waiting, failed = deque(questions), []

    async def work() -> None:
        link = Link(one.port)
        while waiting:
            question = waiting.popleft()
            if await ask(run, one, link, question):
                failed.append(question[:3])
            if len(waiting) % 16 == 0:
                link.close()  # now and then a new connection
        link.close()

    await asyncio.gather(*(work() for _ in range(LINKS)))
    if len(failed) > FAILED * len(questions):
        run.seen_meanwhile.append(f"{one.name} had no answer to {len(failed)} of {len(questions)}, as {failed[0]}")


def one_round(run: Run, number: int) -> None:
    """Every kind of request at every instance; rounds differ only in the names."""
    voucher = run.vouchers[0]
    if number > 0:
        voucher = run.new_voucher()
    buyers = [f"r{number}-{n}" for n in range(BUYERS)]
    for one in run.stack.instances:
        mine = buyers[one.number :: len(run.stack.instances)]
        buys = [("POST", f"/seckill/{voucher}", user, ASYNC if n % 3 == 0 else "") for n, user in enumerate(mine)]
        asyncio.run(crowd(run, one, buys))
        asyncio.run(crowd(run, one, buys[:200]))  # winners repeat
    wait_for("commits", lambda: not any(v.journal for v in run.read_world().vouchers.values()))
    orders = [(e.order, e.user) for e in run.history if e.voucher == voucher and e.status in (201, 202)]
    made_up = [f"{n:08x}-0000-7000-8000-000000000000" for n in range(400)]
    reads = [("GET", f"/orders/{order}", user, "") for order, user in orders * 2]
    reads += [("GET", f"/orders/{order}", f"stranger{n}", "") for n, order in enumerate(made_up)]  # a user may ask for few at a time
    reads += [("GET", "/orders", user, "") for _, user in orders]
    reads += [("GET", "/vouchers", "x", ""), ("GET", f"/vouchers/{voucher}", "x", "")] * 300
    reads += [("GET", f"/vouchers/{10**12 + n}", "x", "") for n in range(300)]
    reads += [("GET", path, "", ADMIN) for path in admin_paths(voucher)] * 150
    for one in run.stack.instances:
        asyncio.run(crowd(run, one, reads))


def admin_paths(voucher: str) -> list[str]:
    return [f"/admin/vouchers/{voucher}", f"/admin/vouchers/{voucher}/dead-letters"]


def same_crowd_twice(run: Run) -> None:
    sizes = []
    for number in range(ROUNDS):
        one_round(run, number)
        for one in run.stack.instances:
            wait_for("clients gone", lambda one=one: one.fds() <= one.fds_at_start)
        sizes.append([resident_kb(one) for one in run.stack.instances])
    if sizes[0][0] == 0:
        raise Broken("no memory is counted")
    for one, first, last in zip(run.stack.instances, *sizes[-2:]):
        if last > first * (1 + GROWTH) and not run.terms.sanitized:
            run.leaks.append(f"{one.name}: {first} kB resident, and {last} kB after the same again")


ROWS = [
    Fault("30", "the same crowd twice: no more memory", same_crowd_twice, rate=0, seconds=0.5),
]
