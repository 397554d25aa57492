"""Clients of every route, at the shutdown of an instance and when memory is short. An answer is complete or has no byte
at all, and the instance exits cleanly.
"""

from __future__ import annotations

import json
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor

from crowd import Event
from driver import Run
from fault import Fault
from machine import Deadline
from rows_tools import another, buy, terms
from stack import ADMIN_TOKEN, Broken, Instance, wait_for

UNKNOWN_ORDER = "00000000-0000-7000-8000-000000000000"
TORN = -1


def request(method: str, path: str, user: str, body: dict | None = None, more: str = "") -> bytes:
    who = f"Authorization: Bearer {ADMIN_TOKEN}" if path.startswith("/admin") else f"X-User-Id: {user}"
    data = b"" if body is None else json.dumps(body).encode()
    length = f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n" if method == "POST" else ""
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{who}\r\n{more}{length}\r\n".encode() + data


def answers(data: bytes) -> list[tuple[int, dict]]:
    """Each answer in a connection's bytes; (TORN, {}) at its end if the last answer is incomplete."""
    found = []
    while data:
        head, end, rest = data.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
        length = int(fields.get(b"content-length", b"0"))
        if not end or not head.startswith(b"HTTP/1.1 ") or len(rest) < length:
            return [*found, (TORN, {})]
        try:
            found.append((int(head[9:12]), json.loads(rest[:length]) if length else {}))
        except ValueError:
            return [*found, (TORN, {})]
        data = rest[length:]
    return found


def read_to_end(link: socket.socket, until: float) -> bytes:
    data = b""
    while time.monotonic() < until:
        link.settimeout(max(0.01, until - time.monotonic()))
        try:
            chunk = link.recv(65536)
        except OSError:
            break
        if not chunk:
            break
        data += chunk
    return data


# ---- 28b: shutdown ----

ROUNDS, EACH, SPREAD_S = 6, 75, 0.045


def routes(run: Run, order: Event) -> list[tuple[str, str]]:
    voucher = run.vouchers[0]
    gets = ["/orders", f"/orders/{order.order}", f"/orders/{UNKNOWN_ORDER}", "/vouchers", f"/vouchers/{voucher}"]
    gets += ["/admin/vouchers", f"/admin/vouchers/{voucher}", f"/admin/vouchers/{voucher}/dead-letters"]
    gets += ["/healthz", "/readyz"]
    return [("POST", f"/seckill/{voucher}")] + [("GET", path) for path in gets]


def connect(one: Instance) -> socket.socket:
    return socket.create_connection(("127.0.0.1", one.port), timeout=5)


def ended_among(run: Run, one: Instance, number: int, order: Event) -> None:
    """Connections of every route are open and idle; requests arrive from just before the signal until after the end."""
    links = []
    for n in range(EACH):
        for method, path in routes(run, order):
            links.append((connect(one), method, path, f"bye{number}-{n}"))
    reconcile = f"/admin/vouchers/{run.vouchers[0]}/reconcile"
    links.append((connect(one), "POST", reconcile, ""))
    run.rng.shuffle(links)
    asked: dict[socket.socket, Event] = {}
    one.signal(signal.SIGTERM)
    began = time.monotonic()
    for n, (link, method, path, user) in enumerate(links):
        while time.monotonic() < began + SPREAD_S * n / len(links):
            pass
        if method == "POST" and user:
            asked[link] = Event(time.time(), 0, "buy", user, run.vouchers[0], 0)
        try:
            link.sendall(request(method, path, user or order.user if path.startswith("/seckill") else order.user))
        except OSError:
            pass
    until = time.monotonic() + 8
    for link, method, path, _ in links:
        heard = answers(read_to_end(link, until))
        link.close()
        if (TORN, {}) in heard or len(heard) > 1:
            run.seen_meanwhile.append(f"{method} {path} at the end: {heard}")
        if link in asked:
            asked[link].hear(*(heard[0] if heard else (0, {})))
            run.history.append(asked[link])
    code = one.end(signal.SIGTERM)
    if code != 0:
        run.leaks.append(f"SIGTERM among clients: ended with {code}: {last_words(one)}")


def ended_among_clients(run: Run) -> None:
    order = buy(run, run.vouchers[0], "reader")
    for number in range(ROUNDS):
        one = another(run, {"SECKILL_DRAIN_TIMEOUT_MS": "0"} if number % 2 == 0 else {})
        one.wait_ready()
        ended_among(run, one, number, order)


# ---- 26c, 26d: memory ----

AT_ONCE = 3  # instances
LONGEST_S = 7  # longer than the service waits for its stores before it answers 503
LAST = "Connection: close\r\n"


def ready_by_its_log(one: Instance) -> bool:
    """Read from its log: a query would be the first request."""
    return not one.alive() or all(f"{store} is ready" in one.text() for store in ("Redis", "PostgreSQL"))


def ask(one: Instance, data: bytes) -> int:
    """The status; 0: no byte; TORN."""
    try:
        with connect(one) as link:
            link.sendall(data)
            heard = answers(read_to_end(link, time.monotonic() + LONGEST_S))
    except OSError:
        return 0
    return heard[0][0] if len(heard) == 1 else TORN if heard else 0


def try_one(run: Run, number: int, calls: list[tuple[bytes, tuple[int, ...]]]) -> bool:
    """Fails the n-th allocation since the first call, then repeats the calls. Returns whether it was theirs."""
    one = Instance(100 + number, run.stack.folder, run.stack.binary, run.stack.store_urls(False))
    run.stack.others.append(one)
    one.run({"SECKILL_FAIL_MALLOC": f"{number}@http.request"})
    wait_for("stores", lambda: ready_by_its_log(one))
    wrong = []
    for data, due in calls:
        status = ask(one, data)
        if status not in (0, 500, 503, *due):
            wrong.append(f"{data[:60]!r}: {status}")
    failed = "name=malloc" in one.text()
    for data, due in calls:
        deadline = Deadline(LONGEST_S)
        while (status := ask(one, data)) not in due and one.alive() and not deadline.passed():
            time.sleep(0.05)  # a link to a store may have been closed
        if status not in due:
            wrong.append(f"{data[:60]!r}, asked again: {status}")
    code = one.end(signal.SIGTERM)
    if code != 0:
        wrong.append(f"ended with {code}: {last_words(one)}")
    run.leaks += [f"allocation {number}: {line}" for line in wrong]
    return failed


def last_words(one: Instance) -> str:
    found = [line for line in one.text().splitlines() if "Sanitizer" in line or "runtime error:" in line]
    return found[0] if found else one.text()[-300:]


def every_allocation_of(calls_of, most: int, step_by: int):
    """`most`: as many as they make, plus some for background work."""

    def inject(run: Run) -> None:
        calls = calls_of(run)
        numbers = range(1, most, 1 if run.terms.full else step_by)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            failed = list(pool.map(lambda number: try_one(run, number, calls), numbers))
        if not any(failed):
            raise Broken("no allocation failed")
        made = run.postgres.sql(f"select id from seckill_voucher where title like '%{run.fault.name}%' order by id")
        run.vouchers += [row[0] for row in made if row[0] not in run.vouchers]

    return inject


def reads(run: Run) -> list[tuple[bytes, tuple[int, ...]]]:
    order, voucher = buy(run, run.vouchers[0], "reader"), run.vouchers[0]
    paths = {"/orders": 200, f"/orders/{order.order}": 200, f"/orders/{UNKNOWN_ORDER}": 404, "/vouchers": 200}
    paths |= {f"/vouchers/{voucher}": 200, "/vouchers/999999": 404, "/readyz": 200}
    return [(request("GET", path, "reader", more=LAST), (due,)) for path, due in paths.items()]


def commands(run: Run) -> list[tuple[bytes, tuple[int, ...]]]:
    voucher = run.vouchers[0]
    letter = run.postgres.sql(
        "insert into dead_letter (slot, voucher_id, journal_id, raw, reason)"
        f" values (slot_of('{voucher}'), {voucher}, '1-1', 'x', 'made by hand') returning id"
    )[0][0]
    path, letters = f"/admin/vouchers/{voucher}", f"/admin/vouchers/{voucher}/dead-letters"
    return [
        (request("GET", "/admin/vouchers", "", more=LAST), (200,)),
        (request("GET", path, "", more=LAST), (200,)),
        (request("POST", "/admin/vouchers", "", terms(run, 5), f"Idempotency-Key: {run.fault.name}\r\n{LAST}"), (201,)),
        (request("GET", letters, "", more=LAST), (200,)),
        (request("POST", f"{letters}/{letter}/requeue", "", more=LAST), (409, 404)),
        (request("POST", f"{letters}/{letter}/write-off", "", more=LAST), (200,)),
        (request("POST", f"{path}/reconcile", "", more=LAST), (200,)),
    ]


ROWS = [
    Fault("26c", "the n-th allocation of every GET fails", every_allocation_of(reads, 45, 2), seconds=2.0),
    Fault(
        "26d",
        "the n-th allocation of every admin call fails",
        every_allocation_of(commands, 70, 3),
        seconds=2.0,
        units=2000,
        rebuilds=400,
        unknown=0.8,
    ),
    Fault(
        "28b",
        "SIGTERM among idle connections of every route",
        ended_among_clients,
        units=3000,
        rebuilds=24,
        unknown=0.5,
    ),
]
