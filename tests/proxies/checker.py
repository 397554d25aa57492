"""Sends rows through a road and checks what must hold whatever is sent:

- one answer for each request, and none for bytes that are not a request;
- the next request on the same connection gets its own answer;
- other users, who share the gateway's connections to the service, get theirs;
- what a gateway refuses looks like a refusal of the service;
- a user has an order if and only if he was answered 201 or 202; nobody has one from a hidden request.
"""

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import dataclass, field
from typing import Protocol

from roads import ROOT, Road
from rows import ANY, Ask, Row
from wire import Answer, Link, Odd

QUIET_S = 0.12
VICTIMS = 2
CODES = set(re.findall(r"X\((\w+), [45]\d\d, ", (ROOT / "src/api/verdict.h").read_text()))  # of the service's problems
assert CODES, "no code is read from the service's header"
MALFORMED = (400, 405, 414, 422, 431, 501, 505)  # parsers refuse a request with any text, that of the service, too


class Target(Protocol):
    """The service, or its replacement."""

    voucher: str
    others: dict[str, str]

    def buyers(self) -> set[str]: ...


@dataclass
class Findings:
    """Violations, by kind."""

    found: dict[str, list[str]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, kind: str, what: str) -> None:
        with self.lock:
            self.found.setdefault(kind, []).append(what)

    def count(self) -> int:
        return sum(map(len, self.found.values()))


class Checker:
    def __init__(self, road: Road, target: Target, findings: Findings, patience_s: float = 2.0):
        self.road, self.target, self.findings, self.patience_s = road, target, findings, patience_s
        self.acknowledged: set[str] = set()
        self.bodies: dict[str, set[bytes]] = {}
        self.answers = 0
        self.number = 0

    # ---- rows ----

    def run(self, rows: list[Row]) -> None:
        stop = threading.Event()
        victims = [threading.Thread(target=self.victim, args=(n, stop)) for n in range(VICTIMS)]
        for victim in victims:
            victim.start()
        try:
            for row in rows:
                self.send(row)
        finally:
            stop.set()
            for victim in victims:
                victim.join()
        self.compare_buyers()

    def ask_for(self, row: Row) -> Ask:
        self.number += 1
        user = f"{self.name()}-{self.number}"
        smuggled = (
            f"POST /seckill/{self.target.voucher} HTTP/1.1\r\nHost: test\r\nX-User-Id: smuggled-{user}\r\n"
            "Content-Length: 0\r\n\r\n"
        )
        return Ask(self.target.voucher, self.target.others, user, self.road.who(user), self.road.admin(), smuggled.encode())

    def name(self) -> str:
        return "".join(c for c in self.road.name.lower() if c.isalnum())

    def send(self, row: Row) -> None:
        ask = self.ask_for(row)
        link = Link(self.road.operators if row.operators else self.road.port, timeout_s=self.patience_s)
        most = row.most_gateway or row.most if self.road.gateway else row.most
        try:
            sent = row.make(ask)
            link.bodiless = sent.startswith(b"HEAD ")
            link.send(sent)
            answers = link.answers(1, QUIET_S)
            self.judge(row, answers, most, link)
            if not link.ended and answers and not answers[-1].closes():
                self.probe(row, link, answers[-1])
        except Odd as odd:
            if not (row.raw or row.library and not self.road.gateway):
                self.finding("no answer", row, str(odd))
        finally:
            link.close()

    def finding(self, kind: str, row: Row, what: str) -> None:
        self.findings.add(kind, f"{self.road.name}: {row.name}: {what}")

    def judge(self, row: Row, answers: list[Answer], most: int, link: Link) -> None:
        self.answers += len(answers)
        first = answers[0].status if answers else 0
        allowed = row.direct
        if self.road.gateway:
            allowed = row.gateway if row.instead else row.direct + row.gateway
        if first not in allowed and not (self.road.gateway and row.gateway == ANY and first != 0):
            self.finding("status", row, f"{first}, not {allowed}: {answers[:1]}")
        if row.code and answers and self.road.gateway is False and self.code(answers[0]) != row.code:
            self.finding("code", row, f"{self.code(answers[0])}, not {row.code}")
        for answer in answers:
            self.must_be_ours(row, answer)
        if row.same and answers and first in row.direct and answers[0].fields.get("content-type") == "application/problem+json":
            self.bodies.setdefault(row.same, set()).add(answers[0].body)
            if len(self.bodies[row.same]) > 1:
                self.finding("another body", row, f"{answers[0].body!r}")
        if len(answers) > most:
            self.finding("too many answers", row, f"{[a.status for a in answers]}")
        if not self.road.gateway and row.closes and answers and not link.ended and not answers[-1].closes():
            self.finding("left open", row, f"after {first}")
        for answer in answers:
            if answer.status in (201, 202):
                self.note_order(row, answer)

    def must_be_ours(self, row: Row, answer: Answer) -> None:
        if not self.road.gateway or answer.status < 400 or answer.status in MALFORMED or answer.body == b"":
            return
        kind = answer.fields.get("content-type")
        if kind != "application/problem+json" or self.code(answer) not in CODES:
            self.finding("not ours", row, f"{answer.status} {kind} {answer.body[:80]!r}")

    @staticmethod
    def code(answer: Answer) -> str:
        try:
            return json.loads(answer.body).get("code", "")
        except ValueError:
            return ""

    def note_order(self, row: Row, answer: Answer) -> None:
        """The order in the answer must be the user's own."""
        try:
            user = json.loads(answer.body)["user_id"]
        except (ValueError, KeyError):
            self.finding("no order", row, f"{answer.status} {answer.body[:100]!r}")
            return
        self.acknowledged.add(user)
        if user != f"{self.name()}-{self.number}":
            self.finding("smuggled", row, f"the order is {user}'s")

    def probe(self, row: Row, link: Link, last: Answer) -> None:
        """One more request on the connection gets one answer, its own."""
        if row.operators:
            return
        link.send(f"GET /vouchers/{self.target.voucher} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        answers = link.answers(1, QUIET_S / 4)
        self.answers += len(answers)
        if not answers and link.ended:
            return  # the server had closed it because of the earlier bytes
        ids = [self.id_of(answer) for answer in answers]
        if ids != [self.target.voucher]:
            self.finding("another's answer", row, f"after {last.status} {last.body[:60]!r} the next request got {[(a.status, a.body[:60]) for a in answers]}")

    @staticmethod
    def id_of(answer: Answer) -> str:
        try:
            return json.loads(answer.body).get("id", "")
        except ValueError:
            return ""

    # ---- other users ----

    def victim(self, number: int, stop: threading.Event) -> None:
        """Buys once, and then reads its own orders continuously."""
        user = f"{self.name()}-victim-{number}"
        head = b"Host: test\r\n" + self.road.who(user)
        link = None
        answers = 0
        while not stop.is_set():
            link = link or Link(self.road.port)
            if answers % 10 == 0:
                link.send(f"POST /seckill/{self.target.voucher} HTTP/1.1\r\n".encode() + head + b"Content-Length: 0\r\n\r\n")
            else:
                link.send(b"GET /orders HTTP/1.1\r\n" + head + b"\r\n")
            try:
                answer = link.one()
            except Odd as odd:
                self.findings.add("cross-talk", f"{self.road.name}: {user}: {odd}")
                answer = None
            if answer is None:
                link.close()
                link = None
                continue
            self.check_answer(user, answer, answers)
            answers += 1
            time.sleep(0.005)
        if link is not None:
            link.close()
        if answers < 2:
            self.findings.add("cross-talk", f"{self.road.name}: {user} got {answers} answers only")

    def check_answer(self, user: str, answer: Answer, answers: int) -> None:
        try:
            document = json.loads(answer.body)
        except ValueError:
            document = {}
        if answers % 10 == 0:
            fine = document.get("user_id") == user if answers == 0 else document.get("code") == "ALREADY_ORDERED"
        else:
            fine = answer.status == 200 and [order["user_id"] for order in document.get("orders", [])] == [user]
        if fine:
            self.acknowledged.add(user)
        else:
            self.findings.add("cross-talk", f"{self.road.name}: {user} got {answer.status} {answer.body[:200]!r}")

    def compare_buyers(self) -> None:
        """The orders bought on this road match the answers on it."""
        mine = f"{self.name()}-"
        bought = {user for user in self.target.buyers() if user.removeprefix("smuggled-").startswith(mine) or user == "smuggled"}
        for user in sorted(bought - self.acknowledged):
            kind = "smuggled" if user.startswith("smuggled") else "not answered"
            self.findings.add(kind, f"{self.road.name}: {user} has an order")
        for user in sorted(self.acknowledged - bought):
            self.findings.add("lost", f"{self.road.name}: {user} was answered, and has no order")
