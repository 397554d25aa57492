"""The environment of a rush: the crowd's machine, and the versions and settings of the stores. Values that cannot be
read are omitted."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

from lib.common import Failure, Postgres, Redis

REDIS_SETTINGS = ("appendonly", "appendfsync")
POSTGRES_SETTINGS = ("fsync", "synchronous_commit")


def describe(postgres: Postgres, redis: Redis, version: str) -> dict[str, str]:
    told = {
        "cores": str(os.cpu_count()),
        "processor": field_of("/proc/cpuinfo", "model name"),
        "memory": memory(),
        "kernel": f"{platform.system()} {platform.release()}",
        "system": field_of("/etc/os-release", "PRETTY_NAME", "=").strip('"'),
        "seckill": version,
        "Redis": redis_version(redis),
        "PostgreSQL": postgres_version(postgres),
        "wrk": wrk_version(),
        "Python": platform.python_version(),
    }
    return {name: words for name, words in told.items() if words}


def field_of(file: str, name: str, mark: str = ":") -> str:
    """The first line `name: value` of a file."""
    path = Path(file)
    lines = path.read_text().splitlines() if path.exists() else []
    parted = (line.partition(mark) for line in lines)
    return next((value.strip() for key, _, value in parted if key.strip() == name), "")


def memory() -> str:
    kib = field_of("/proc/meminfo", "MemTotal").split()
    return f"{int(kib[0]) / 2**20:.1f} GiB" if kib else ""


def redis_version(redis: Redis) -> str:
    try:
        lines = dict(line.split(":", 1) for line in redis.call("INFO", "server") if ":" in line)
        set_to = ", ".join(" ".join(redis.call("CONFIG", "GET", name)) for name in REDIS_SETTINGS)
        return f"{lines['redis_version'].strip()} ({set_to})"
    except (Failure, KeyError):  # the login may lack the right
        return ""


def postgres_version(postgres: Postgres) -> str:
    try:
        rows = postgres.rows("".join(f"SHOW {name};" for name in ("server_version", *POSTGRES_SETTINGS)))
    except Failure:
        return ""
    set_to = ", ".join(f"{name} {row[0]}" for name, row in zip(POSTGRES_SETTINGS, rows[1:]))
    return f"{rows[0][0]} ({set_to})"


def wrk_version() -> str:
    """wrk prints it in the first line of its help, followed by a usage error."""
    try:
        said = subprocess.run(["wrk", "-v"], text=True, capture_output=True).stdout
    except OSError:
        return ""
    return " ".join(said.splitlines()[:1]).split("[")[0].removeprefix("wrk ").strip()
