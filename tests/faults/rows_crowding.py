"""Clients that hold connections: event streams and long polls until they are refused, directly and through nginx and
HAProxy, and connections with occasional requests. Buyers, probes and operators must be served. 51a to 51d."""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path

from crowd import Event
from driver import Run
from fault import PLAIN, Fault
from rows_limits import whole_answers
from rows_tools import in_background, terms
from stack import Broken, Instance

sys.path.append(str(Path(__file__).resolve().parents[1] / "proxies"))

from roads import Gateways, Road  # noqa: E402

CONNECTIONS = 256  # of each instance
ATTACK_S, TRIED = 4.0, 400  # connections that a client tries at each instance
TICK_S, AT_ONCE = 0.05, 6
KEPT, PROMPT_S = 0.9, 1.0
LEAD_S = 0.3  # of the crowd, before its rate is measured
UNITS = 50  # of the operator's voucher


class Holder:
    """Opens connections to one instance, and keeps those that are accepted. road: through its gateway, each from its
    own address, so that no gateway's limit for an address matters."""

    def __init__(self, one: Instance, requests: list[bytes], again_s: float = 0.0, road: Road | None = None):
        self.one, self.requests, self.again_s, self.road = one, requests, again_s, road
        self.links: list[socket.socket] = []
        self.streams: set[socket.socket] = set()  # those of them that were answered 200
        self.tried = self.refused = self.most = self.most_streams = 0
        self.ending = False
        self.thread = in_background(self.work)

    def work(self) -> None:
        asked = time.monotonic()
        while not self.ending:
            for _ in range(AT_ONCE if self.tried < TRIED else 1):
                self.open()
            again = self.again_s > 0 and time.monotonic() > asked + self.again_s
            asked = time.monotonic() if again else asked
            self.links = [link for link in self.links if self.stays(link, again)]
            self.streams.intersection_update(self.links)
            self.most, self.most_streams = max(self.most, len(self.links)), max(self.most_streams, len(self.streams))
            time.sleep(TICK_S)
        for link in self.links:
            link.close()

    def open(self) -> None:
        self.tried += 1
        try:
            link = self.connect()
            link.setblocking(False)
            link.send(self.requests[self.tried % len(self.requests)])
            self.links.append(link)
        except OSError:
            pass

    def connect(self) -> socket.socket:
        if self.road is None:
            return socket.create_connection(("127.0.0.1", self.one.port), timeout=1)
        source = f"127.1.{self.tried >> 8 & 255}.{self.tried & 255}"
        return socket.create_connection(("127.0.0.1", self.road.port), timeout=1, source_address=(source, 0))

    def stays(self, link: socket.socket, again: bool) -> bool:
        try:
            text = link.recv(1 << 16)
        except BlockingIOError:
            text = b" "
        except OSError:
            text = b""
        refused = text.startswith((b"HTTP/1.1 503", b"HTTP/1.1 429"))
        self.refused += refused
        if not text or refused:
            link.close()
            return False
        if text.startswith(b"HTTP/1.1 200"):
            self.streams.add(link)
        if again:
            try:
                link.send(self.requests[0])
            except OSError:
                pass
        return True

    def end(self) -> None:
        self.ending = True
        self.thread.join()


def definite_per_s(run: Run, began: float, ended: float) -> float:
    inside = [event for event in run.history if event.what == "buy" and began <= event.began and event.ended <= ended]
    return sum(event.outcome != "unknown" for event in inside) / (ended - began)


def must_be_prompt(run: Run, one: Instance, method: str, path: str) -> None:
    began = time.time()
    status, document = one.ask(method, path)
    took = time.time() - began - run.machine_late_s(began)
    if status != 200:
        run.seen_meanwhile.append(f"{one.name}: {method} {path} was answered {status} {document.get('code', '')}")
    elif took > PROMPT_S:
        run.miss(f"{one.name}: {method} {path} took {took:.1f} s")


def must_keep_their_rate(run: Run, began: float, ended: float) -> None:
    first = min(event.began for event in run.history) + LEAD_S
    before = definite_per_s(run, first, began)
    during = definite_per_s(run, began, ended) * (ended - began) / (ended - began - run.machine_late_s(began, ended))
    if during < KEPT * before:
        run.miss(f"buyers kept {during:.0f} of {before:.0f} answers a second")


def held(
    run: Run, requests: list[bytes], voucher: str, again_s: float = 0.0, road: Road | None = None
) -> list[Holder]:
    """While a client holds all it gets from each instance, probes and operators are answered in time, and buyers keep
    their rate. If it asks only once (again_s 0), half of the connections are left, and others read as usual."""
    holders = [Holder(one, requests, again_s, road) for one in run.stack.instances]
    began, until, reads = time.time(), time.monotonic() + ATTACK_S, []
    try:
        while time.monotonic() < until:
            for one in run.stack.instances:
                for method, path in vital(voucher):
                    must_be_prompt(run, one, method, path)
                reads.append(one.ask("GET", f"/vouchers/{voucher}")[0])
            if road:
                must_sell(run, road, f"beside-{len(reads)}")
            time.sleep(0.2)
        must_keep_their_rate(run, began, time.time())
    finally:
        for holder in holders:
            holder.end()
    if again_s == 0 and reads.count(200) < len(reads) / 2:
        run.seen_meanwhile.append(f"a voucher was shown {reads.count(200)} times of {len(reads)}")
    return holders


def operators_voucher(run: Run) -> str:
    """Nobody else uses it until the attack is over."""
    status, made = run.first.ask("POST", "/admin/vouchers", body=terms(run, UNITS))
    if status != 201:
        raise Broken(f"no voucher: {status} {made}")
    return made["id"]


def vital(voucher: str) -> list[tuple[str, str]]:
    """Probes, and an operator's work on the voucher."""
    probes = [("GET", "/healthz"), ("GET", "/readyz")]
    return probes + [("POST", f"/admin/vouchers/{voucher}/{what}") for what in ("pause", "resume")]


def streams(run: Run) -> list[bytes]:
    """Of one voucher, and of a list, as the shop page opens it."""
    one = run.vouchers[0]
    return [f"GET /vouchers/{path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for path in (f"{one}/events", f"events?ids={one}")]


def long_requests(run: Run) -> None:
    """Anonymous streams and one user's long polls, until both are refused: they get at most half of the connections, so
    that everything else is served as usual."""
    waiter = run.buy("waiter", 0)
    poll = f"GET /orders/{waiter.order}?wait=60&while=unpaid HTTP/1.1\r\nHost: x\r\nX-User-Id: waiter\r\n\r\n"
    voucher = operators_voucher(run)
    for holder in held(run, [*streams(run), poll.encode()], voucher):
        if holder.most_streams > CONNECTIONS // 2:
            run.seen_meanwhile.append(f"{holder.one.name}: {holder.most_streams} streams at a time")
        if holder.tried < CONNECTIONS or holder.most < CONNECTIONS // 4:
            raise Broken(f"{holder.most} of {holder.tried} long requests are no attack")
    run.vouchers.append(voucher)


def connections_kept(run: Run) -> None:
    """As many connections as possible, each with a request before its time-out."""
    ask = f"GET /vouchers/{run.vouchers[0]} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    voucher = operators_voucher(run)
    for holder in held(run, [ask], voucher, again_s=0.2):
        if holder.tried < CONNECTIONS or holder.most < CONNECTIONS // 2:
            raise Broken(f"{holder.most} of {holder.tried} connections are no attack")
    run.vouchers.append(voucher)


def through(run: Run, gateway: str) -> None:
    """The same through a gateway as shipped, from many addresses. Its other buyers must be served, too."""
    gateways = Gateways(run.stack.folder / f"{gateway}-{time.monotonic_ns()}", run.first, limited=True)
    try:
        road = getattr(gateways, gateway)()
        waiter = run.buy("waiter", 0)
        poll = f"GET /orders/{waiter.order}?wait=60&while=unpaid HTTP/1.1\r\nHost: x\r\n".encode() + road.who("waiter") + b"\r\n"
        voucher = operators_voucher(run)
        for holder in held(run, [*streams(run), poll], voucher, road=road):
            if holder.refused == 0 or holder.most < CONNECTIONS // 4:
                raise Broken(f"{holder.most} of {holder.tried} long requests are no attack")
        run.vouchers.append(voucher)
    finally:
        gateways.close()


def must_sell(run: Run, road: Road, user: str) -> None:
    """Waiting clients must not take the gateway's own connections to the service."""
    began = time.time()
    head = f"POST /seckill/{run.vouchers[0]} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n".encode() + road.who(user) + b"\r\n"
    event = Event(began, 0, "buy", user, run.vouchers[0], run.first.number)
    status, document = 0, {}
    try:
        with socket.create_connection(("127.0.0.1", road.port), timeout=5) as link:
            link.sendall(head)
            status, document = whole_answers(link, 1)[0]
    except OSError:
        pass
    event.hear(status, document)
    run.history.append(event)
    took = event.ended - began - run.machine_late_s(began)
    if event.outcome == "unknown":
        run.seen_meanwhile.append(f"{road.name}: a purchase was answered {status or 'not at all'}")
    elif took > PROMPT_S:
        run.miss(f"{road.name}: a purchase took {took:.1f} s")


GATEWAY_ENV = {
    "SECKILL_MAX_CONNECTIONS": str(CONNECTIONS), "SECKILL_TRUSTED_PROXIES": "127.0.0.1", "SECKILL_ADMIN_LISTEN": "its own",
}

ROWS = [
    Fault(
        "51a", "streams and long polls until they are refused", long_requests, units=5000,
        env={"SECKILL_MAX_CONNECTIONS": str(CONNECTIONS)}, seconds=8.0, rate=250, alone=True,
    ),
    Fault(
        "51b", "connections that are kept: the last tenth sells", connections_kept, units=5000, habits=PLAIN,
        env={"SECKILL_MAX_CONNECTIONS": str(CONNECTIONS)}, seconds=8.0, rate=250, alone=True,
    ),
    Fault(
        "51c", "streams and long polls through nginx", lambda run: through(run, "nginx"), units=5000, instances=1,
        env=GATEWAY_ENV, seconds=8.0, rate=250, alone=True,
    ),
    Fault(
        "51d", "streams and long polls through HAProxy", lambda run: through(run, "haproxy"), units=5000, instances=1,
        env=GATEWAY_ENV, seconds=8.0, rate=250, alone=True,
    ),
]
