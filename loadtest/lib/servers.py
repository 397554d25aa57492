"""Processes that the benchmark starts, and the figures that /proc has of them and of others."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from lib import common
from lib.common import Failure

CONTENDERS = common.ROOT / "loadtest" / "contenders"
READY_S = 20


# ---- CPU time and memory, from /proc ----


def process_table() -> dict[int, tuple[int, float]]:
    """pid -> parent, CPU seconds of itself and of the children it has waited for."""
    table = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        table[int(stat.parent.name)] = int(fields[1]), sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return table


def family_of(roots: list[int], table: dict[int, tuple[int, float]]) -> list[int]:
    """Processes and all their descendants."""
    family = [root for root in roots if root in table]
    for pid in family:
        family += [child for child, (parent, _) in table.items() if parent == pid]
    return family


def cpu_seconds(roots: list[int]) -> float:
    """CPU time of processes and all their descendants."""
    table = process_table()
    return sum(table[pid][1] for pid in family_of(roots, table))


def fine_cpu_ms(roots: list[int]) -> float:
    """The same by the scheduler's clock, in nanoseconds; only of processes that still live."""
    total_ns = 0
    for pid in family_of(roots, process_table()):
        for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            try:
                total_ns += int(file.read_text().split()[0])
            except OSError:
                continue
    return total_ns / 1e6


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


# ---- servers ----


@dataclass
class Server:
    process: subprocess.Popen
    url: str

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_server(command: list[str], port: int, ready: str, log: Path, env: dict[str, str] | None = None) -> Server:
    """Starts a contender and polls it until it answers without a server error."""
    try:
        with log.open("w") as output:
            process = subprocess.Popen(command, env=os.environ | (env or {}), stdout=output, stderr=output)
    except FileNotFoundError:
        raise Failure(f"{command[0]} is not installed") from None
    server = Server(process, f"http://127.0.0.1:{port}")

    def answers() -> bool:
        if process.poll() is not None:
            raise Failure(f"{command[0]} ended with status {process.returncode}:\n{log.read_text()[-2000:]}")
        try:
            urllib.request.urlopen(server.url + ready, timeout=2).close()
            return True
        except urllib.error.HTTPError as error:
            return error.code < 500
        except OSError:
            return False

    try:
        common.wait_for(f"{command[0]} at {server.url}{ready}", answers, READY_S, pause=0.02)
    except BaseException:
        server.stop()
        raise
    return server


def fill_in(template: str, target: Path, **values: object) -> Path:
    """Writes a contender's configuration with its @NAMES@ replaced."""
    text = (CONTENDERS / template).read_text()
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    target.write_text(text)
    return target
