"""Private stores under the simulation's clock, and the worlds that are played on it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

sys.path.append(str(Path(__file__).resolve().parents[1] / "harness"))

from stores import REDIS_PASSWORD, PostgresServer, RedisServer, migrate  # noqa: E402

TESTS = Path(__file__).resolve().parents[1]
CHUNK = 20  # worlds that a worker takes at a time
STORY_SEEDS = 10  # networks with which a kept story is played
ROOM_BYTES = 1 << 30
OFF = ("fsync", "full_page_writes", "autovacuum", "synchronous_commit")

signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a run that must end stops its stores


def scratch() -> str | None:
    """A file system in memory, if it can be used: each world makes some hundred files of PostgreSQL anew."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or not os.access(memory, os.W_OK) or shutil.disk_usage(memory).free < ROOM_BYTES:
        return None
    return None if os.statvfs(memory).f_flag & os.ST_NOEXEC else str(memory)  # the stores load a library from it


class SimRedis(RedisServer):
    """Without a file: what it loses is the simulation's to decide."""

    def __init__(self, folder: Path, name: str, preload: dict[str, str]):
        super().__init__(folder, name)
        self.preload, self.socket = preload, folder / f"{name}.sock"

    def run(self) -> None:
        super().run("no", "--appendonly", "no", "--unixsocket", str(self.socket), "--enable-debug-command", "yes")


class SimPostgres(PostgresServer):
    settings = (*(f"{name}=off" for name in OFF), "deadlock_timeout=1h")

    def __init__(self, folder: Path, name: str, preload: dict[str, str]):
        self.preload = preload
        super().__init__(folder, name)

    def address(self, login: str, database: str) -> str:
        return f"host={self.dir} port={self.port} dbname={database} user={login}"

    def migrate(self, build: Path, database: str) -> None:
        migrate(build / "seckill", {"SECKILL_DATABASE_URL": f"postgresql://owner@127.0.0.1:{self.port}/{database}"})


def store_time(folder: Path, number: int, build: Path) -> tuple[Path, list[dict[str, str]]]:
    """The file of three clocks (store_time.c), and the environment with which a store has each of them."""
    clock = folder / f"time-{number}"
    clock.write_bytes(bytes(3 * 8))
    clock.chmod(0o644)
    library = folder / f"time-{number}.so"  # PostgreSQL's user may not enter the tree
    shutil.copy(build / "tests/sim/libstore_time.so", library)
    library.chmod(0o755)
    return clock, [{"LD_PRELOAD": str(library), "SK_SIM_TIME": str(clock), "SK_SIM_CLOCK": str(i)} for i in range(3)]


DATABASES = ("seckill", "seckill_2")  # shards


class Worker:
    """Two Redis servers, a PostgreSQL with two databases, and the worlds that are played on them."""

    def __init__(self, folder: Path, number: int, build: Path):
        clock, preload = store_time(folder, number, build)
        self.program = build / "sim"
        self.redis = [SimRedis(folder, f"redis-{number}-{node}", preload[node]) for node in (0, 1)]
        for redis in self.redis:
            redis.run()
        self.postgres = SimPostgres(folder, f"pg-{number}", preload[2])
        self.postgres.sql("create database seckill_2 owner owner", "postgres")
        for database in DATABASES:
            self.postgres.migrate(build, database)
        self.postgres.give_logins()
        # A killed instance never gives its memory back, and a world ends without it.
        self.env = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}
        self.env |= {"SK_SIM_REDIS_PASSWORD": REDIS_PASSWORD, "SK_SIM_TIME": str(clock)}
        self.env |= {"SK_SIM_JUDGE": str(TESTS / "judge.sql"), "SK_SIM_ANSWERS": str(TESTS / "answers.sql")}
        for which, redis, database in zip(("", "_2"), self.redis, DATABASES):
            self.env[f"SK_SIM_REDIS{which}"] = str(redis.socket)
            self.env[f"SK_SIM_POSTGRES{which}"] = self.postgres.address("seckill", database)
            self.env[f"SK_SIM_OWNER{which}"] = self.postgres.address("postgres", database)

    def play(self, first: int, worlds: int, *words: str, limit_s: float | None = None) -> subprocess.CompletedProcess:
        command = [str(self.program), str(first), str(worlds), *words]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=limit_s)

    def close(self) -> None:
        for redis in self.redis:
            redis.end(9)
        self.postgres.end(3)


@contextmanager
def workers_of(count: int, build: Path) -> Iterator[list[Worker]]:
    folder = Path(tempfile.mkdtemp(prefix="sim-", dir=scratch()))
    folder.chmod(0o755)
    workers: list[Worker] = []
    try:
        for number in range(count):
            workers.append(Worker(folder, number, build))
        yield workers
    finally:
        for worker in workers:
            worker.close()
        shutil.rmtree(folder, ignore_errors=True)
