"""Seeded users who buy over HTTP, and the history of their requests and answers.

An outcome is `ok` (201, 202, or 409 ALREADY_ORDERED), `refused` (any other definite refusal), or `unknown`: a
time-out, a broken connection, a 5xx. Users repeat requests, some through several instances at once, some with
Prefer: respond-async, some with an Idempotency-Key. Clients with a 202 read the order's URL now and then. Later
requests about an order are in life.py, and are part of the same history.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from dataclasses import asdict, dataclass, field

PATIENCE_S = 4.0
REFUSALS = {"SOLD_OUT", "NOT_ENOUGH", "NOT_STARTED", "PAUSED", "ENDED", "TOO_MANY_ORDERS"}


@dataclass
class Event:
    began: float
    ended: float
    what: str  # buy, read, hung: a purchase whose client did not wait for the answer; or pay, extend, cancel, refund
    user: str  # whose order it is
    voucher: str
    instance: int
    status: int = 0  # 0: no answer
    code: str = ""
    order: str = ""
    state: str = ""  # of the order in the answer
    reason: str = ""
    shown: list[str] = field(default_factory=list)  # the order, user and voucher in the answer's body
    quantity: int = 1  # requested
    key: str = ""  # the Idempotency-Key
    left: int = -1  # the units left in a NOT_ENOUGH
    reference: str = ""  # of a payment, or of the one that a refund names
    amount: int = 0
    restock: bool = False

    @property
    def outcome(self) -> str:
        if self.status in (200, 201, 202) or self.code == "ALREADY_ORDERED":
            return "ok"
        return "refused" if 400 <= self.status < 500 else "unknown"

    @property
    def told(self) -> str:
        """As tests/answers.sql has it."""
        if self.status == 202:
            return "taken"
        if self.status == (201 if self.what == "buy" else 200):
            return "done"
        return {"ok": "another"}.get(self.outcome, self.outcome)

    @property
    def was_late(self) -> bool:
        """Whether the crowd itself was late: its time-out came long after its time."""
        return self.status == 0 and self.ended - self.began > PATIENCE_S + 0.5

    def hear(self, status: int, document: dict) -> None:
        """Records the answer. Only the answer gives the order of a purchase."""
        self.ended, self.status, self.code = time.time(), status, document.get("code", "")
        self.state, self.reason = document.get("status", ""), document.get("reason", "")
        if self.what == "buy":
            self.order = document.get("order_id" if status == 409 else "id", "")
        self.left = document.get("left", -1)
        if status in (200, 201, 202):
            self.shown = [document.get(name, "") for name in ("id", "user_id", "voucher_id")]
        if not isinstance(self.state, str):
            self.state = document.get("state", "")  # a problem document has its HTTP status there


async def ask(port: int, method: str, path: str, user: str, headers: str = "", timeout: float = PATIENCE_S, body=None):
    """(status, document) of one request on a connection of its own; (0, {}) without an answer."""
    try:
        return await asyncio.wait_for(_ask(port, method, path, user, headers, body), timeout)
    except (OSError, ValueError, IndexError, asyncio.TimeoutError):
        return 0, {}


async def _ask(port: int, method: str, path: str, user: str, headers: str, body: dict | None):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sent, who = b"", f"X-User-Id: {user}\r\n" if user else ""
    if body is not None:
        sent, headers = json.dumps(body).encode(), headers + "Content-Type: application/json\r\n"
    try:
        writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: crowd\r\n{who}{headers}"
            f"Connection: close\r\nContent-Length: {len(sent)}\r\n\r\n".encode() + sent
        )
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        return int(head.split(b" ", 2)[1]), json.loads(body) if body else {}
    finally:
        writer.close()


class Crowd:
    """Runs on a thread of its own between start() and join()."""

    def __init__(self, ports: list[int], rng: random.Random, history: list[Event]):
        self.ports, self.rng, self.history = ports, rng, history
        self.thread: threading.Thread | None = None
        self.pending: list[Event] = []

    def start(self, vouchers: list[str], seconds: float, rate: int, users: int, spread: bool, opposite: bool) -> None:
        """`spread`: each user asks all instances at once. `opposite`: from both ends of the list of users."""
        self.plan = (vouchers, seconds, rate, users, spread, opposite)
        self.thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self.thread.start()

    def join(self) -> None:
        if self.thread is not None:
            self.thread.join()
        self.thread = None

    def _choose(self, n: int, part: float, users: int, opposite: bool) -> str:
        """New users arrive over time; one in three requests comes from an earlier user."""
        if opposite:
            return f"u{n % users if n % 2 else users - 1 - n % users}"
        reach = max(1, int(users * min(1.0, part + 0.02)))
        return f"u{self.rng.randrange(reach) if self.rng.random() < 0.34 else min(n, users - 1)}"

    async def _run(self) -> None:
        vouchers, seconds, rate, users, spread, opposite = self.plan
        began, tasks, n = time.monotonic(), set(), 0
        while (now := time.monotonic()) < began + seconds:
            while n < (now - began) * rate:
                voucher, user = vouchers[n % len(vouchers)], self._choose(n, (now - began) / seconds, users, opposite)
                for instance in range(len(self.ports)) if spread else [self.rng.randrange(len(self.ports))]:
                    tasks.add(asyncio.create_task(self._buy(voucher, user, instance)))
                n += 1
            if self.pending and self.rng.random() < 0.5:
                tasks.add(asyncio.create_task(self._read(self.rng.choice(self.pending))))
            await asyncio.sleep(0.005)
            tasks = {task for task in tasks if not task.done()}
        if tasks:
            await asyncio.wait(tasks, timeout=10)

    async def _buy(self, voucher: str, user: str, instance: int) -> None:
        event = Event(time.time(), 0, "buy", user, voucher, instance)
        await self._ask_for(event)

    async def _ask_for(self, event: Event) -> None:
        """A purchase as the event says it."""
        headers = "Prefer: respond-async\r\n" if self.rng.random() < 0.4 else ""
        headers += f"Idempotency-Key: {event.key}\r\n" if event.key else ""
        body = {"quantity": event.quantity} if event.quantity > 1 else None
        path = f"/seckill/{event.voucher}"
        await self._hear(event, ask(self.ports[event.instance], "POST", path, event.user, headers, body=body))
        if event.status == 202:
            self.pending.append(event)

    async def _read(self, bought: Event) -> None:
        instance = self.rng.randrange(len(self.ports))
        event = Event(time.time(), 0, "read", bought.user, bought.voucher, instance, order=bought.order)
        await self._hear(event, ask(self.ports[instance], "GET", f"/orders/{bought.order}", bought.user))

    async def _hear(self, event: Event, answer) -> None:
        """Into the history also if the crowd's time is over before there is an answer: it may be carried out."""
        try:
            event.hear(*await answer)
        finally:
            event.ended = time.time()
            self.history.append(event)


class Link:
    """Sends requests to one instance, one after the other, on a kept connection."""

    def __init__(self, port: int):
        self.port, self.reader, self.writer = port, None, None

    async def ask(self, method: str, path: str, user: str, headers: str = "", timeout: float = 5.0):
        """(status, document); (0, {}) without an answer, and the connection is given up."""
        try:
            return await asyncio.wait_for(self._ask(method, path, user, headers), timeout)
        except (OSError, ValueError, IndexError, EOFError, asyncio.TimeoutError):
            self.close()
            return 0, {}

    async def _ask(self, method: str, path: str, user: str, headers: str):
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        length = "Content-Length: 0\r\n" if method == "POST" else ""
        head = f"{method} {path} HTTP/1.1\r\nHost: crowd\r\nX-User-Id: {user}\r\n{headers}{length}\r\n"
        self.writer.write(head.encode())
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        body = await self.reader.readexactly(int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0]))
        if b"connection: close" in head:
            self.close()
        return int(head.split(b" ", 2)[1]), json.loads(body) if body else {}

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


async def ask_all(port: int, questions: list[Event], links: int = 8) -> None:
    """GETs the order of each event, as its user, over a few connections."""
    waiting = list(reversed(questions))

    async def work() -> None:
        link = Link(port)
        while waiting:
            event = waiting.pop()
            event.began = time.time()
            event.hear(*await link.ask("GET", f"/orders/{event.order}", event.user))
        link.close()

    await asyncio.gather(*(work() for _ in range(links)))


def write_history(path, history: list[Event]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        for event in history:
            file.write(json.dumps(asdict(event) | {"outcome": event.outcome}) + "\n")
