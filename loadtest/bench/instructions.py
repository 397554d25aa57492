"""Instructions of the service for one request, as callgrind counts them. A busy machine changes them by some hundreds
only.

256 connections send requests at the same time and then wait for all answers: batches have 1 to 255 orders.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from lib.common import Failure, Voucher
from lib.service import Service, Side

CONNECTIONS, ASKED, TIMES = 256, 40, 3
WARM = 4  # requests of each connection before it counts
TIMEOUT_S = 60
MOST = 1.02  # new to old


def count(side: Side) -> dict[str, float]:
    """For a committed order, and for a refusal from memory."""
    out = side.folder / f"{side.stores.build.name}.callgrind"
    under = ("valgrind", "--tool=callgrind", f"--callgrind-out-file={out}")
    with replace(side, under=under).serving() as service, ExitStack() as stack:
        host, _, port = service.url.removeprefix("http://").partition(":")
        crowd = [stack.enter_context(socket.create_connection((host, int(port)), TIMEOUT_S)) for _ in range(CONNECTIONS)]
        won = count_answers(service, crowd, service.voucher(), 201, out)
        return {"durable": won, "sold_out": count_answers(service, crowd, service.sold_out_voucher(), 409, out)}


def count_answers(service: Service, crowd: list[socket.socket], voucher: Voucher, status: int, out: Path) -> float:
    pid, counted = service.servers[0].process.pid, []
    ask_all(crowd, voucher, status, 0, WARM)
    for number in range(TIMES):
        control("--zero", pid)
        ask_all(crowd, voucher, status, WARM + number * ASKED, ASKED)
        control("--dump", pid)
        newest = max(out.parent.glob(f"{out.name}.*"), key=lambda file: int(file.suffix[1:]))
        counted.append(total_of(newest) / (ASKED * CONNECTIONS))
    return statistics.median(counted)


def ask_all(crowd: list[socket.socket], voucher: Voucher, status: int, first: int, times: int) -> None:
    for time in range(first, first + times):
        for number, one in enumerate(crowd):
            user = f"user-{time:05}-{number:03}"
            one.sendall(
                f"POST /seckill/{voucher.id} HTTP/1.1\r\nHost: shop\r\nX-User-Id: {user}\r\nContent-Length: 0\r\n\r\n".encode()
            )
        for one in crowd:
            head = read_answer(one)
            if int(head.split()[1]) != status:
                raise Failure(f"instead of {status} it was answered: {head.decode()}")


def read_answer(one: socket.socket) -> bytes:
    text = b""
    while b"\r\n\r\n" not in text:
        text += receive(one)
    head, _, body = text.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    while len(body) < int(fields[b"content-length"]):
        body += receive(one)
    return head


def receive(one: socket.socket) -> bytes:
    if part := one.recv(8192):
        return part
    raise Failure("the service ended a connection")


def control(what: str, pid: int) -> None:
    subprocess.run(["callgrind_control", what, str(pid)], check=True, capture_output=True)


def total_of(dump: Path) -> int:
    for line in dump.read_text().splitlines():
        if line.startswith("totals:"):
            return int(line.split()[1])
    raise Failure(f"callgrind has counted nothing in {dump.name}")


def compare(old: Side, new: Side) -> list[dict[str, object]]:
    counts = [count(side) for side in (old, new)]
    return [
        {"name": name, "old": round(counts[0][name]), "new": round(counts[1][name]),
         "new_to_old": round(counts[1][name] / counts[0][name], 3)}
        for name in counts[0]
    ]  # fmt: skip


def show(rows: list[dict[str, object]]) -> None:
    print(f"\n{'instructions':<17}{'old':>10}{'new':>10}{'new/old':>9}")
    for row in rows:
        print(f"{row['name']:<17}{row['old']:>10,}{row['new']:>10,}{row['new_to_old']:>9.3f}")
    print(f"of the service for one answer; at most {MOST} times as many")
