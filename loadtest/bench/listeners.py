"""Many connections that wait, in a process of their own: each sends one request, and the process reads whatever
arrives.

As a program, `listeners.py HOST PORT` reads lines `path<TAB>user` (user may be empty), connects and sends all requests.
It prints `ready` once all are sent and those that end with `!` have received something. At the end of its input it
prints, in JSON, what it received and what the reading cost.
"""

from __future__ import annotations

import json
import os
import resource
import select
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Iterator

from bench import parking
from lib import common

READY_S = 60
END_S = 20
READ_BYTES = 65536
BURST, BURST_PAUSE_S = 100, 0.1  # a server bounds the requests that it has in progress


@dataclass
class Heard:
    """What listeners received during a measurement."""

    seconds: float
    events: int
    ended: int  # connections that were answered or closed
    cpu_seconds: float

    @property
    def events_per_s(self) -> float:
        return self.events / self.seconds

    @property
    def cpu_share(self) -> float:
        return self.cpu_seconds / self.seconds


class Listeners:
    def __init__(self, child: subprocess.Popen):
        self.child = child

    def stop(self) -> Heard:
        told, _ = self.child.communicate(timeout=END_S)
        return Heard(**json.loads(told))


@contextmanager
def listening(url: str, lines: list[tuple[str, str]]) -> Iterator[Listeners]:
    """Takes lines of paths and users; all requests are sent when it yields the listeners."""
    parking.raise_descriptors(len(lines))
    host, port = url.removeprefix("http://").split(":")
    questions = "".join(f"{path}\t{user}\n" for path, user in lines) + "\n"
    with common.module_that_says(__name__, [host, port], "ready", READY_S, questions) as child:
        yield Listeners(child)


# ---- the process ----


def ask(host: str, port: int, path: str, user: str) -> socket.socket:
    connection = socket.create_connection((host, port), timeout=READY_S)
    named = f"X-User-Id: {user}\r\n" if user else ""
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: bench\r\n{named}\r\n".encode())
    connection.setblocking(False)
    return connection


class Readers:
    def __init__(self, connections: dict[int, tuple[socket.socket, bool]]):
        self.connections = connections
        self.silent = {fd for fd, (_, speaks) in connections.items() if speaks}
        self.events = self.ended = 0
        self.epoll = select.epoll()
        for fd in connections:
            self.epoll.register(fd, select.EPOLLIN)
        self.epoll.register(sys.stdin.fileno(), select.EPOLLIN)

    def read(self) -> bool:
        """False: end of input."""
        for fd, _ in self.epoll.poll(1):
            if fd == sys.stdin.fileno():
                return False
            connection, speaks = self.connections[fd]
            try:
                text = connection.recv(READ_BYTES)
            except OSError:
                text = b""
            self.silent.discard(fd)
            self.events += text.count(b"\nid: ") + text.startswith(b"id: ")
            if not text or not speaks:
                self.ended += 1
                self.epoll.unregister(fd)
        return True


def main() -> None:
    host, port = sys.argv[1], int(sys.argv[2])
    connections = {}
    while line := sys.stdin.readline().rstrip("\n"):
        path, user = line.split("\t")
        connection = ask(host, port, path.rstrip("!"), user)
        connections[connection.fileno()] = connection, path.endswith("!")
        if len(connections) % BURST == 0:
            time.sleep(BURST_PAUSE_S)
    readers = Readers(connections)
    while readers.silent and readers.read():
        pass
    readers.events, before, since = 0, resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    print("ready", flush=True)
    while readers.read():
        pass
    now = resource.getrusage(resource.RUSAGE_SELF)
    cpu = now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime
    heard = Heard(time.monotonic() - since, readers.events, readers.ended, cpu)
    print(json.dumps(heard.__dict__), flush=True)
    os._exit(0)  # does not close thousands of sockets one by one


if __name__ == "__main__":
    main()
