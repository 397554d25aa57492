"""How buyers are protected from each other: rates, connections of an address, tickets whose secret changes. And how a
manager replaces an instance of which one loop, or all, hang. 50a to 50d."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import threading
import time

from crowd import Event
from driver import Run
from fault import Fault
from machine import Deadline
from rows_attackers import LONGEST_S, NO_REFUSAL_CACHE, few_asked, others_were_served
from rows_clients import answers, request
from rows_tools import in_background, restart, terms, within
from stack import ROOT, Broken, Instance, wait_for

# ---- 50a: rates ----

USER_RATE, FLOODERS, AT_ONCE, PAUSE_S, FLOOD_S = 25, 3, 20, 0.05, 2.0  # the crowd needs the processor, too
CROWD_RATE, CROWD_S = 350, 7.0


def whole_answers(link: socket.socket, count: int) -> list[tuple[int, dict]]:
    data = b""
    while data.count(b"HTTP/1.1 ") < count or answers(data)[-1][0] < 0:
        chunk = link.recv(1 << 16)
        if not chunk:
            break
        data += chunk
    return answers(data)


def flood(run: Run, user: str, instance: Instance) -> None:
    """Tries to buy as fast as it can. Its answers are in the history like all others."""
    ask = request("POST", f"/seckill/{run.vouchers[0]}", user) * AT_ONCE
    tried, passed, began = 0, 0, time.monotonic()
    with socket.create_connection(("127.0.0.1", instance.port), timeout=5) as link:
        while time.monotonic() < began + FLOOD_S:
            sent = time.time()
            link.sendall(ask)
            for status, document in whole_answers(link, AT_ONCE):
                tried += 1
                passed += status != 429
                if status in (201, 202):
                    event = Event(sent, 0, "buy", user, run.vouchers[0], instance.number)
                    event.hear(status, document)
                    run.history.append(event)
            time.sleep(PAUSE_S)
    allowed = USER_RATE * (time.monotonic() - began + 1)
    if passed > allowed + 1:
        run.seen_meanwhile.append(f"{user}: of {tried} tries {passed} passed, a rate of {USER_RATE} allows {allowed:.0f}")
    if tried < 2 * allowed:
        raise Broken(f"{tried} tries are no flood")


def users_flood(run: Run) -> None:
    """Some try far more often than allowed; nobody else gets 429."""
    began = now = time.time()
    while now == began or (now < began + LONGEST_S and few_asked(run, began, now)):
        floods = [
            in_background(lambda n=n: flood(run, f"flood{n}", run.stack.instances[n % len(run.stack.instances)]))
            for n in range(FLOODERS)
        ]
        for one in floods:
            one.join()
        now = time.time()
    others_were_served(run, began, now)
    limited = [event.user for event in run.history if event.code == "RATE_LIMITED" and not event.user.startswith("flood")]
    if limited:
        run.seen_meanwhile.append(f"{len(limited)} tries of users who behave were refused: {limited[:3]}")


# ---- 50b: connections ----

MOST, TRIED, FROM = 100, 400, "127.0.0.9"


def connect_from(address: str, port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=5, source_address=(address, 0))


def is_served(link: socket.socket) -> bool:
    try:
        link.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        return link.recv(1 << 12).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def may_connect(address: str, port: int) -> bool:
    try:
        return is_served(connect_from(address, port))
    except OSError:
        return False


def connections_taken(run: Run) -> None:
    """One address takes as many connections of each instance as it gets, and keeps them busy enough to stay. The crowd
    comes through a trusted proxy, whose connections are not counted."""
    instances = run.stack.instances
    links = {one: [connect_from(FROM, one.port) for _ in range(TRIED)] for one in instances}
    began, exceeded = time.time(), False
    while not exceeded and ((now := time.time()) < began + 3 or (now < began + LONGEST_S and few_asked(run, began, now))):
        for one in instances:
            links[one] = [link for link in links[one] if is_served(link)]
            if len(links[one]) > MOST:
                run.seen_meanwhile.append(f"{FROM} has {len(links[one])} connections of {one.name}, of {MOST} at most")
                exceeded = True
        time.sleep(0.3)
    others_were_served(run, began, time.time())
    for one in instances:
        if len(links[one]) < MOST // 2:
            raise Broken(f"{len(links[one])} connections are no attack")
        for link in links[one]:
            link.close()
        within(run, f"{FROM} may connect again", lambda: may_connect(FROM, one.port), 3)


# ---- 50c: tickets ----

OLD, NEW, TTL_S = "the-old-secret-of-tickets", "the-new-secret-of-tickets", 4
BUYERS, WAIT_S, RETRY_S, TICKET_S = 4, 0.5, 2.0, 6.0  # a ticket may live a second less


class TicketBuyer:
    """Gets a ticket, waits a little, buys: one user after the other, each at instances picked at random."""

    def __init__(self, run: Run, number: int, voucher: str, ending: threading.Event):
        self.run, self.number, self.voucher, self.ending = run, number, voucher, ending
        self.sold = 0
        self.rng = random.Random(run.rng.random())
        self.thread = in_background(self.work)

    def ask(self, method: str, path: str, user: str, headers=None) -> tuple[int, int, dict]:
        one = self.rng.choice(self.run.stack.instances)
        return one.number, *one.ask(method, path, user, timeout=2.0, headers=headers)

    def work(self) -> None:
        while not self.ending.is_set():
            self.buy(f"ticket{self.number}-{self.sold}")
            self.sold += 1

    def ticket(self, user: str) -> str:
        deadline = Deadline(TICKET_S)
        while not deadline.passed():
            _, status, document = self.ask("POST", f"/vouchers/{self.voucher}/ticket", user)
            if status == 200:
                return document["ticket"]
            time.sleep(0.05)
        return ""

    def buy(self, user: str) -> None:
        """An instance that is being restarted does not answer; a purchase may be repeated."""
        headers = {"X-Seckill-Ticket": self.ticket(user)}
        time.sleep(self.rng.random() * WAIT_S)
        deadline = Deadline(RETRY_S)
        while True:
            event = Event(time.time(), 0, "buy", user, self.voucher, 0)
            event.instance, status, document = self.ask("POST", f"/seckill/{self.voucher}", user, headers)
            event.hear(status, document)
            self.run.history.append(event)
            if event.outcome != "unknown" or deadline.passed():
                break
            time.sleep(0.05)
        if event.outcome == "refused":
            self.run.seen_meanwhile.append(f"{user} with a good ticket: {event.status} {event.code}")


def sell_without_tickets(run: Run, voucher: str) -> None:
    """From now on the voucher is like the crowd's, and judged the same."""
    run.stack.instances[-1].ask("PATCH", f"/admin/vouchers/{voucher}", body={"ticket": False})

    def all_sell() -> bool:
        return all(run.buy(f"without-{one.number}", one, voucher=voucher).code != "TICKET_REQUIRED" for one in run.stack.instances)

    wait_for("sales without tickets", all_sell)
    run.vouchers.append(voucher)


def secret_exchanged(run: Run) -> None:
    """As in gateway.md: add a second line, swap, remove the old one; instances restart one after the other."""
    status, made = run.stack.instances[-1].ask("POST", "/admin/vouchers", body=terms(run, 5000) | {"ticket": True})
    if status != 201:
        raise Broken(f"no voucher: {status} {made}")
    ending = threading.Event()
    buyers = [TicketBuyer(run, n, made["id"], ending) for n in range(BUYERS)]
    try:
        for lines in (f"{OLD}\n{NEW}", f"{NEW}\n{OLD}", NEW):
            if lines == NEW:
                time.sleep(TTL_S)
            for one in run.stack.instances:
                restart(one, {"SECKILL_TICKET_SECRET": lines})
        time.sleep(0.5)
    finally:
        ending.set()
        for buyer in buyers:
            buyer.thread.join()
    if min(buyer.sold for buyer in buyers) < 5:
        raise Broken(f"{[buyer.sold for buyer in buyers]} bought with tickets")
    sell_without_tickets(run, made["id"])


# ---- 50d: the watchdog ----

WATCHDOG_S, LATE_S = 0.8, 2.0


class Manager:
    """Does what systemd does for a unit with Type=notify and WatchdogSec: ends a silent process, and starts the
    next."""

    def __init__(self, run: Run, one: Instance, env: dict[str, str]):
        self.one, path = one, run.stack.folder / "notify"
        self.ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.ear.bind(str(path))
        self.ear.settimeout(0.1)
        self.env = env | {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": str(int(WATCHDOG_S * 1e6))}
        self.replaced, self.ready, self.ending = 0, threading.Event(), False
        one.end(signal.SIGTERM)
        one.run(self.env)
        self.silence = Deadline(WATCHDOG_S)
        self.thread = in_background(self.watch)

    def watch(self) -> None:
        while not self.ending:
            try:
                lines = self.ear.recv(4096).decode().splitlines()
            except OSError:
                lines = []
            if {"WATCHDOG=1", "READY=1"} & set(lines) or any(line.startswith("EXTEND_TIMEOUT") for line in lines):
                self.silence = Deadline(WATCHDOG_S)
            if "READY=1" in lines:
                self.ready.set()
            if self.ready.is_set() and self.silence.passed():
                self.replace()

    def replace(self) -> None:
        self.one.expected_exits.add(-signal.SIGKILL)
        self.one.end(signal.SIGKILL)
        self.ready.clear()
        self.replaced += 1
        self.one.run(self.env)
        self.silence = Deadline(WATCHDOG_S)

    def end(self) -> None:
        self.ending = True
        self.thread.join()
        self.ear.close()


def stands_still(run: Run) -> None:
    """First one of three loops hangs, which leaves two others, then the whole process is paused. Its users are served
    again within seconds, without manual action."""
    library, file, one = run.stack.folder / "hanging_loop.so", run.stack.folder / "hanging", run.stack.instances[0]
    source = ROOT / "tests/integration/hanging_loop.c"
    done = subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, source], capture_output=True, text=True)
    if done.returncode != 0:
        raise Broken(f"hanging_loop.c: {done.stderr}")
    file.unlink(missing_ok=True)
    manager = Manager(run, one, {"LD_PRELOAD": str(library), "HANGING_LOOP": str(file)})
    try:
        wait_for("the instance", manager.ready.is_set)
        one.wait_ready()
        time.sleep(2 * WATCHDOG_S)
        if manager.replaced:
            run.seen_meanwhile.append("replaced though all loops turn")
        for why, cause, repair in (
            ("a loop hangs", file.touch, file.unlink),
            ("it stands still", lambda: one.signal(signal.SIGSTOP), lambda: None),
        ):
            before = manager.replaced
            cause()
            within(run, f"{why}: replaced", lambda: manager.replaced > before, WATCHDOG_S + LATE_S)
            repair()
            within(run, f"{why}: the next one is ready", manager.ready.is_set, 10)
    finally:
        file.unlink(missing_ok=True)
        manager.end()
    one.wait_ready()


ROWS = [
    Fault(
        "50a", "users who try far more often than they may", users_flood,
        env={"SECKILL_USER_RATE": str(USER_RATE), **NO_REFUSAL_CACHE},
        rate=CROWD_RATE, seconds=CROWD_S, short=True,
        users=int(CROWD_RATE * CROWD_S) + 1,  # when a crowd has run out, all who are new are its last user, who floods then
    ),
    Fault(
        "50b", "one address takes all the connections that it gets", connections_taken,
        env={
            "SECKILL_ADDRESS_CONNECTIONS": str(MOST), "SECKILL_MAX_CONNECTIONS": "256",
            "SECKILL_TRUSTED_PROXIES": "127.0.0.1", **NO_REFUSAL_CACHE,
        },
        seconds=12.0,
    ),
    Fault(
        "50c", "the secret of tickets exchanged under load", secret_exchanged, units=2000,
        env={"SECKILL_TICKET_SECRET": OLD, "SECKILL_TICKET_TTL_S": str(TTL_S)}, seconds=15.0, rate=120, unknown=0.6,
    ),
    Fault(
        "50d", "a loop hangs, an instance stands still: replaced", stands_still, units=3000,
        env={"SECKILL_REACTORS": "3"}, seconds=10.0, rate=120, unknown=0.5, alone=True,
    ),
]
