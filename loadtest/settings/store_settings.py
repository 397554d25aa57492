"""Settings of Redis and PostgreSQL that have, or are thought to have, an effect, and how a turn applies them."""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, ContextManager, Iterator

from lib import common
from lib.common import Failure, Redis
from lib.servers import free_port
from lib.stores import StoreServers

MEMORY = Path("/dev/shm")
SEGMENTS = 32  # of the write-ahead log, 16 MB each: more than a turn fills
FEW_AHEAD, MANY_AHEAD = 2, 24
APPLIED_S = 10

Prepare = Callable[[StoreServers], ContextManager[None]]


@dataclass(frozen=True)
class Value:
    name: str
    prepare: Prepare
    redis_in_memory: bool = False  # the turn uses that Redis


@dataclass(frozen=True)
class Setting:
    name: str
    title: str
    values: tuple[Value, ...]


# ---- how they are applied ----


def nothing(_: StoreServers) -> ContextManager[None]:
    return nullcontext()


def redis(**settings: str) -> Prepare:
    return lambda servers: servers.redis_set_to(settings)


def postgres(**settings: str) -> Prepare:
    return lambda servers: postgres_set_to(servers, settings)


@contextmanager
def postgres_set_to(servers: StoreServers, settings: dict[str, str]) -> Iterator[None]:
    """Changes the server, with ALTER SYSTEM; needs that right, which the owner of `./dev up` has."""
    try:
        for name, value in settings.items():
            servers.postgres.rows(f"ALTER SYSTEM SET {name} = '{value}'")
        reload(servers)
        for name, value in settings.items():
            wait_until_applied(servers, name, value)
        yield
    finally:
        for name in settings:
            servers.postgres.rows(f"ALTER SYSTEM RESET {name}")
        reload(servers)


def reload(servers: StoreServers) -> None:
    servers.postgres.rows("SELECT pg_reload_conf()")


def wait_until_applied(servers: StoreServers, name: str, value: str) -> None:
    def applied() -> bool:
        return servers.postgres.rows(f"SHOW {name}")[0][0] == value

    common.wait_for(f"{name} = {value}", applied, APPLIED_S)


@contextmanager
def log_written_through(servers: StoreServers, recycled: bool) -> Iterator[None]:
    """Fills many segments of the write-ahead log and makes a checkpoint, after which they are recycled or removed."""
    kept = {"min_wal_size": "512MB", "wal_recycle": "on"} if recycled else {"min_wal_size": "32MB", "wal_recycle": "off"}
    with postgres_set_to(servers, kept):
        step = "SELECT pg_logical_emit_message(true, 'warm-up', ''); SELECT pg_switch_wal();\n"
        servers.postgres.rows(step * SEGMENTS + "CHECKPOINT;")
        ahead = segments_ahead(servers)
        if ahead < MANY_AHEAD if recycled else ahead > FEW_AHEAD:
            raise Failure(f"{ahead} segments of the write-ahead log are there ahead of time")
        yield


def segments_ahead(servers: StoreServers) -> int:
    """Segments that exist, but are not written yet."""
    newer = "name ~ '^[0-9A-F]{24}$' AND name > pg_walfile_name(pg_current_wal_insert_lsn())"
    return int(servers.postgres.rows(f"SELECT count(*) FROM pg_ls_waldir() WHERE {newer}")[0][0])


@contextmanager
def redis_in_memory() -> Iterator[str]:
    """A second Redis, whose append-only file needs no disk. Yields its address."""
    if not MEMORY.is_dir():
        raise Failure(f"there is no {MEMORY}")
    with tempfile.TemporaryDirectory(prefix="seckill-settings-", dir=MEMORY) as folder, ExitStack() as stack:
        port = free_port()
        command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", folder, "--save", ""]
        command += ["--appendonly", "yes", "--appendfsync", "always", "--logfile", f"{folder}/log"]
        process = subprocess.Popen(command)
        stack.callback(process.wait)
        stack.callback(process.terminate)
        server = Redis(f"redis://127.0.0.1:{port}")

        def answers() -> bool:
            try:
                return server.call("PING") == ["PONG"]
            except Failure:
                return False

        common.wait_for("the second Redis", answers, APPLIED_S)
        yield server.url


# ---- the settings ----

NO_DISK = postgres(fsync="off")  # as if its disk took no time; it must not crash
SETTINGS = (
    Setting(
        "appendfsync",
        "Redis, appendfsync",
        tuple(Value(name, redis(appendfsync=name)) for name in ("always", "everysec", "no")),
    ),
    Setting(
        "disks",
        "whose disk takes no time",
        (
            Value("neither's", nothing),
            Value("Redis's", nothing, redis_in_memory=True),
            Value("PostgreSQL's", NO_DISK),
            Value("both's", NO_DISK, redis_in_memory=True),
        ),
    ),
    Setting(
        "segments",
        "PostgreSQL, segments of 16 MB",
        (
            Value("made in the rush", lambda servers: log_written_through(servers, recycled=False)),
            Value("made ahead", lambda servers: log_written_through(servers, recycled=True)),
        ),
    ),
    Setting(
        "max_wal_size",
        "PostgreSQL, max_wal_size",
        tuple(Value(name, postgres(max_wal_size=name)) for name in ("64MB", "1GB", "4GB")),
    ),
    Setting(
        "synchronous_commit",
        "PostgreSQL, synchronous_commit",
        tuple(Value(name, postgres(synchronous_commit=name)) for name in ("on", "off")),
    ),
)
