"""The stores of a build: a PostgreSQL database and a Redis database of its own, fresh for every turn.

Of the service's tables this file knows only `voucher_order`, and of its keys only the pattern `seckill:*`: a build of
another commit may have others. The build's own `--migrate` creates the schema.
"""

from __future__ import annotations

import os
import urllib.parse
from contextlib import contextmanager
from typing import Iterator

from lib import common
from lib.builds import Build
from lib.common import Failure, Postgres, Redis

REDIS_DATABASES = range(1, 16)  # the default databases of Redis; 0 has other people's keys
REDIS_SETTINGS = {"appendonly": "yes", "save": "", "auto-aof-rewrite-percentage": "0"}
SETTLE_S = 60
QUIET_READS = 3
JOURNAL_FIELDS = ("length", "last-generated-id")  # of XINFO STREAM


class StoreServers:
    """Redis and PostgreSQL of the environment, on this machine."""

    def __init__(self, redis_url: str = "") -> None:
        """Uses another Redis than the environment's, if one is named."""
        env = common.environment() | ({"REDIS_URL": redis_url} if redis_url else {})
        missing = [name for name in ("REDIS_URL", "DATABASE_URL", "SECKILL_DATABASE_URL") if not env.get(name)]
        if missing:
            raise Failure(f"no Redis and PostgreSQL to run on: run ./dev up, or set {', '.join(missing)}")
        self.owner_url, self.service_url = env["DATABASE_URL"], env["SECKILL_DATABASE_URL"]
        self.redis, self.postgres = Redis(env["REDIS_URL"]), Postgres(self.owner_url)
        self.pids = {"redis": [int(self.redis_server("process_id"))], "postgres": [self.postgres_pid()]}
        self.free_databases = [number for number in REDIS_DATABASES if self.is_empty(number)]

    def redis_server(self, field: str) -> str:
        lines = (line.strip().partition(":") for line in self.redis.call("INFO", "server"))
        return next(value for name, _, value in lines if name == field)

    def postgres_pid(self) -> int:
        """The postmaster's pid: it is the parent of the backend that answers."""
        script = "SELECT pg_backend_pid() AS pid \\gset\n\\setenv BACKEND :pid\n\\! cut -d' ' -f4 /proc/$BACKEND/stat\n"
        return int(self.postgres.rows(script)[0][0])

    def is_empty(self, number: int) -> bool:
        return self.redis.database(number).number("DBSIZE") == 0

    def take_redis_database(self) -> Redis:
        if not self.free_databases:
            raise Failure("Redis has no empty database left among 1 to 15")
        return self.redis.database(self.free_databases.pop(0))

    @contextmanager
    def redis_set_to(self, settings: dict[str, str]) -> Iterator[None]:
        """Redis's configuration during the run; no rewriting of the file in the middle of a round."""
        found = {name: self.redis.call("CONFIG", "GET", name)[1] for name in settings}
        try:
            for name, value in settings.items():
                self.redis.call("CONFIG", "SET", name, value)
            yield
        finally:
            for name, value in found.items():
                self.redis.call("CONFIG", "SET", name, value)

    def rewrite_append_only_file(self) -> None:
        self.redis.call("BGREWRITEAOF")
        common.wait_for("the append-only file's rewriting", self.append_only_file_is_calm, SETTLE_S)

    def append_only_file_is_calm(self) -> bool:
        lines = self.redis.call("INFO", "persistence")
        return {"aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"} <= {line.strip() for line in lines}


class Stores:
    """The stores of one build. The migrated database is a template; every turn gets a copy."""

    def __init__(self, servers: StoreServers, build: Build):
        self.servers, self.build = servers, build
        self.redis = servers.take_redis_database()
        self.name = f"seckill_bench_{os.getpid()}_{build.name}"
        self.template = f"{self.name}_template"
        self.kept: list[str] = []  # other databases from which turns can begin
        self.empty_bytes = 0  # of Redis's memory, when the turn began
        self.owner_url = database_url(servers.owner_url, self.name)
        self.service_url = database_url(servers.service_url, self.name)
        self.postgres = Postgres(self.owner_url)

    @contextmanager
    def migrated(self) -> Iterator[Stores]:
        """Removes the databases at the end."""
        try:
            self.servers.postgres.rows(f"CREATE DATABASE {self.template}")
            env = {"SECKILL_DATABASE_URL": database_url(self.servers.owner_url, self.template)}
            common.run([str(self.build.binary("seckill")), "--migrate"], env=env)
            yield self
        finally:
            self.redis.call("FLUSHDB")
            for database in (self.name, self.template, *self.kept):
                self.drop(database)

    def drop(self, database: str) -> None:
        self.servers.postgres.rows(f"DROP DATABASE IF EXISTS {database}")

    def renew(self, template: str = "") -> None:
        """Resets the stores: nothing has been sold, or what the template holds. DROP DATABASE makes a checkpoint,
        which helps: every turn begins right after one."""
        self.redis.call("FLUSHDB")
        self.drop(self.name)
        self.servers.postgres.rows(f"CREATE DATABASE {self.name} TEMPLATE {template or self.template}")
        self.servers.rewrite_append_only_file()
        self.empty_bytes = self.redis_bytes()

    def keep_as_template(self) -> str:
        """Saves the database, to which nobody may be connected, as a template. Returns the name for renew()."""
        template = f"{self.name}_{len(self.kept)}"
        self.servers.postgres.rows(f"ALTER DATABASE {self.name} RENAME TO {template}")
        self.kept.append(template)
        return template

    # -- what they hold --

    def all_orders(self) -> int:
        """Orders of all vouchers that were not refused."""
        return int(self.postgres.rows("SELECT count(*) FROM voucher_order WHERE status::text <> 'refused'")[0][0])

    def orders(self, voucher_id: str) -> tuple[int, float]:
        """Orders that were not refused, and when the last one was written."""
        [[count, last_at]] = self.postgres.rows(
            "SELECT count(*), coalesce(extract(epoch FROM max(created_at)), 0) FROM voucher_order"
            f" WHERE voucher_id = {voucher_id} AND status::text <> 'refused'"
        )
        return int(count), float(last_at)

    def orders_between(self, voucher_id: str, begin: float, end: float) -> int:
        """Orders written in a time span, in seconds since 1970."""
        [[count]] = self.postgres.rows(
            f"SELECT count(*) FROM voucher_order WHERE voucher_id = {voucher_id} AND status::text <> 'refused'"
            f" AND created_at >= to_timestamp({begin}) AND created_at < to_timestamp({end})"
        )
        return int(count)

    def buyers_keys(self) -> list[str]:
        return self.keys("seckill:*:buyers")

    def buyers(self) -> int:
        return sum(map(int, self.redis.each(f"HLEN {key}" for key in self.buyers_keys())))

    def buyers_bytes(self) -> int:
        """Only the hashes of the buyers."""
        return sum(map(int, self.redis.each(f"MEMORY USAGE {key} SAMPLES 0" for key in self.buyers_keys())))

    def journal_bytes(self) -> int:
        return sum(map(int, self.redis.each(f"MEMORY USAGE {key} SAMPLES 0" for key in self.keys("seckill:*:journal"))))

    def redis_bytes(self) -> int:
        return next(int(line.partition(":")[2]) for line in self.redis.call("INFO", "memory") if "used_memory:" in line)

    def keys(self, pattern: str) -> list[str]:
        return [key for key in self.redis.call("KEYS", pattern) if key]

    def wait_until_settled(self) -> None:
        """Waits until every journal is empty and stays empty: requests that wrk left behind may still be on their
        way into one."""
        before, quiet = None, 0

        def at_rest() -> bool:
            nonlocal before, quiet
            journals = self.journals()
            still = journals == before and not any(length for length, _ in journals)
            before, quiet = journals, quiet + 1 if still else 0
            return quiet >= QUIET_READS

        common.wait_for(f"{self.build.name}: empty journals", at_rest, SETTLE_S)

    def journals(self) -> list[tuple[int, str]]:
        """For each journal: the number of entries, and the id of the last one ever written."""
        words = self.redis.each(f"XINFO STREAM {key}" for key in sorted(self.keys("seckill:*:journal")))
        lengths, newest = ([words[i + 1] for i, word in enumerate(words) if word == name] for name in JOURNAL_FIELDS)
        return list(zip(map(int, lengths), newest))


def database_url(url: str, name: str) -> str:
    """The same server and login, another database."""
    return urllib.parse.urlsplit(url)._replace(path=f"/{name}").geturl()
