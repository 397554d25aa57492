"""Clients that hang up, and clients that are slow: 21, 22."""

from __future__ import annotations

import socket
import struct
import threading
import time

from crowd import Event
from driver import Run
from fault import Fault
from stack import Broken
from world import LATE_PART

ASKED = 60  # purchases at an instance that are enough to judge it
ATTACK_S, LONGEST_S = 4, 12  # until each instance got that many
# For rows that count how many were served. Otherwise each unit that returns to a sold-out voucher reopens its sale, and
# the crowd gets 503 until the cached refusals have expired.
NO_REFUSAL_CACHE = {"SECKILL_SOLD_OUT_MARK_MS": "0"}


def clients_hang_up(run: Run) -> None:
    hang_up(run, 10000)


def hang_up(run: Run, clients: int) -> None:
    """Clients that reset, half-close, or leave while they wait."""
    ports = [instance.port for instance in run.stack.instances]

    def some(offset: int) -> None:
        for n in range(offset, clients, 4):
            user, began = f"u{n % run.fault.users}", time.time()
            request = (
                f"POST /seckill/{run.vouchers[0]} HTTP/1.1\r\nHost: x\r\nX-User-Id: {user}\r\n"
                "Content-Length: 0\r\n\r\n"
            ).encode()
            try:
                with socket.create_connection(("127.0.0.1", ports[n % len(ports)]), timeout=5) as link:
                    how = n % 4
                    link.sendall(request[: len(request) // 2] if how == 3 else request)
                    if how == 0:  # RST
                        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    elif how == 1:
                        link.shutdown(socket.SHUT_WR)
            except ConnectionError:
                pass  # the soak kills instances meanwhile; part of the request may have arrived
            run.history.append(Event(began, time.time(), "hung", user, run.vouchers[0], n % len(ports)))

    threads = [threading.Thread(target=some, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def slowloris(run: Run) -> None:
    """Slow clients take nearly all connections of each instance; the crowd must still be served."""
    links = slow_clients(run, 200)
    began = time.time()
    while (now := time.time()) < began + ATTACK_S or (now < began + LONGEST_S and few_asked(run, began, now)):
        go_on_slowly(links)
        time.sleep(0.2)
    others_were_served(run, began, time.time())
    for link, _, _ in links:
        link.close()


def slow_clients(run: Run, each: int) -> list:
    """So many of each instance that send, or read, as slowly as they can: socket, head, and what is left of it."""
    links = []
    target = f"POST /seckill/{run.vouchers[0]} HTTP/1.1\r\nHost: x\r\n".encode()
    heads = [
        target + b"X-Slow: ",
        target + b"X-User-Id: slow\r\nContent-Length: 1000\r\n\r\n",
        b"GET /vouchers HTTP/1.1\r\nHost: x\r\n\r\n" * 200,
    ]
    for n in range(each * len(run.stack.instances)):
        port = run.stack.instances[n % len(run.stack.instances)].port
        link = socket.create_connection(("127.0.0.1", port), timeout=5)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        link.setblocking(False)
        links.append((link, heads[n % 3], bytearray(heads[n % 3])))
    return links


def go_on_slowly(links: list) -> None:
    for n, (link, head, left) in enumerate(links):
        try:
            if n % 3 == 2:
                link.send(head)
            else:
                link.send(left[:20] or b"x")
                del left[:20]
        except OSError:
            pass


def outcomes_at(run: Run, number: int, began: float, ended: float) -> list[str]:
    """Outcomes of purchases, without unknown ones for which the machine was late."""
    here = [e for e in list(run.history) if e.instance == number and e.what == "buy" and began <= e.began and e.ended <= ended]
    return [e.outcome for e in here if e.outcome != "unknown" or not machine_was_late(run, e)]


def few_asked(run: Run, began: float, ended: float) -> list[str]:
    """Instances with too few purchases, because the machine is slow."""
    return [one.name for one in run.stack.instances if len(outcomes_at(run, one.number, began, ended)) < ASKED]


def others_were_served(run: Run, began: float, ended: float) -> None:
    """By each instance, during the fault."""
    if few := few_asked(run, began, ended):
        raise Broken(f"in {ended - began:.1f} s of attack too few asked {', '.join(few)}")
    for instance in run.stack.instances:
        heard = outcomes_at(run, instance.number, began, ended)
        definite = len(heard) - heard.count("unknown")
        if definite < 50 or definite < 0.95 * len(heard):
            run.seen_meanwhile.append(f"{instance.name} served {definite} of {len(heard)} during the attack")


def machine_was_late(run: Run, event: Event) -> bool:
    """As in unknown_share()."""
    return run.machine_late_s(event.began, event.ended) > LATE_PART * (event.ended - event.began)


ROWS = [
    Fault("21", "10,000 clients reset, half-close, hang up", clients_hang_up, seconds=5.0, unknown=0.2),
    Fault(
        "22", "slow headers, bodies and readers, 200 of 256", slowloris,
        env={"SECKILL_MAX_CONNECTIONS": "256", **NO_REFUSAL_CACHE}, seconds=12.0, rate=100,
    ),
]
