"""The stores of a build: a PostgreSQL database and a Redis database of its own, fresh for every turn. Or several of
each: the masters of a Redis Cluster, and a database on each shard.

Of the service's tables this file knows only `voucher_order`, and of its keys only the pattern `seckill:*`: a build of
another commit may have others. The build's own `--migrate` creates the schema.
"""

from __future__ import annotations

import os
import tempfile
import urllib.parse
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

from lib import common
from lib.builds import Build
from lib.common import Failure, Postgres, Redis

REDIS_DATABASES = range(1, 16)  # the default databases of Redis; 0 has other people's keys
REDIS_SETTINGS = {"appendonly": "yes", "save": "", "auto-aof-rewrite-percentage": "0"}
SETTLE_S = 60
QUIET_READS = 3
JOURNAL_FIELDS = ("length", "last-generated-id")  # of XINFO STREAM


@dataclass(frozen=True)
class PostgresServer:
    owner_url: str
    service_url: str

    @property
    def postgres(self) -> Postgres:
        return Postgres(self.owner_url)


class StoreServers:
    """Redis and PostgreSQL of the environment, on this machine."""

    def __init__(self, redis_url: str = "", masters: int = 1, shards: int = 1) -> None:
        """Uses another Redis than the environment's, if one is named, or the masters of its cluster."""
        env = common.environment() | ({"REDIS_URL": redis_url} if redis_url else {})
        databases = ("SHARD_OWNERS", "SECKILL_SHARDS") if env.get("SECKILL_SHARDS") else ("DATABASE_URL", "SECKILL_DATABASE_URL")
        missing = [name for name in ("REDIS_URL", *databases) if not env.get(name)]
        if missing:
            raise Failure(f"no Redis and PostgreSQL to run on: run ./dev up, or set {', '.join(missing)}")
        self.redis_url = env["REDIS_URL"] if masters == 1 else env.get("CLUSTER_URL", "")
        self.masters, self.shards = masters_of(self.redis_url), postgres_servers(env, *databases)[:shards]
        if (len(self.masters), len(self.shards)) != (masters, shards):
            raise Failure(f"no {masters} masters and {shards} shards to run on: ./dev scaling starts them")
        self.redis, self.postgres = self.masters[0], self.shards[0].postgres
        self.free_databases = [number for number in REDIS_DATABASES if masters == 1 and self.is_empty(number)]
        self.pids = {
            "redis": [int(self.redis_server("process_id", redis)) for redis in self.masters],
            "postgres": [postgres_pid(server.postgres) for server in self.shards],
        }

    def redis_server(self, field: str, redis: Redis | None = None) -> str:
        return info(redis or self.redis, "server")[field]

    def is_empty(self, number: int) -> bool:
        return self.redis.database(number).number("DBSIZE") == 0

    def take_redis(self) -> list[Redis]:
        """A database of its own, or the whole cluster, whose nodes have only one."""
        if len(self.masters) > 1:
            return self.masters
        if not self.free_databases:
            raise Failure("Redis has no empty database left among 1 to 15")
        return [self.redis.database(self.free_databases.pop(0))]

    @contextmanager
    def redis_set_to(self, settings: dict[str, str]) -> Iterator[None]:
        """Redis's configuration during the run; no rewriting of the file in the middle of a round."""
        with ExitStack() as restored:
            for redis in self.masters:
                for name, value in settings.items():
                    found = redis.call("CONFIG", "GET", name)[1]
                    restored.callback(redis.call, "CONFIG", "SET", name, found)
                    redis.call("CONFIG", "SET", name, value)
            yield

    def rewrite_append_only_files(self) -> None:
        for redis in self.masters:
            redis.call("BGREWRITEAOF")
        common.wait_for("the append-only file's rewriting", self.append_only_files_are_calm, SETTLE_S)

    def append_only_files_are_calm(self) -> bool:
        found = [info(redis, "persistence") for redis in self.masters]
        return all(one["aof_rewrite_in_progress"] == one["aof_rewrite_scheduled"] == "0" for one in found)


def info(redis: Redis, section: str) -> dict[str, str]:
    return dict(line.strip().split(":", 1) for line in redis.call("INFO", section) if ":" in line)


def masters_of(url: str) -> list[Redis]:
    """Redis, or the nodes of a cluster without replicas."""
    parts = urllib.parse.urlsplit(url)
    if not parts.scheme.endswith("+cluster"):
        return [Redis(url)] if url else []
    login = parts.netloc.rpartition("@")[0]
    return [Redis(f"redis://{login}@{host}:{port}") for host, port in common.hosts_of(parts, 6379)]


def postgres_servers(env: dict[str, str], owner: str, service: str) -> list[PostgresServer]:
    """The only server, or the shards, whose URLs are in files."""
    if service == "SECKILL_DATABASE_URL":
        return [PostgresServer(env[owner], env[service])]
    return [PostgresServer(*urls) for urls in zip(*(Path(env[name]).read_text().split() for name in (owner, service)))]


def postgres_pid(postgres: Postgres) -> int:
    """The postmaster's pid: it is the parent of the backend that answers."""
    script = "SELECT pg_backend_pid() AS pid \\gset\n\\setenv BACKEND :pid\n\\! cut -d' ' -f4 /proc/$BACKEND/stat\n"
    return int(postgres.rows(script)[0][0])


class Stores:
    """The stores of one build. The migrated database is a template; every turn gets a copy."""

    def __init__(self, servers: StoreServers, build: Build):
        self.servers, self.build = servers, build
        self.masters = servers.take_redis()
        self.name = f"seckill_bench_{os.getpid()}_{build.name}_{len(servers.masters)}_{len(servers.shards)}"
        self.template = f"{self.name}_template"
        self.kept: list[str] = []  # other databases from which turns can begin
        self.empty_bytes = 0  # of Redis's memory, when the turn began
        self.shards = [Postgres(database_url(server.owner_url, self.name)) for server in servers.shards]
        self.redis, self.postgres = self.masters[0], self.shards[0]  # where there is one of each

    @contextmanager
    def migrated(self) -> Iterator[Stores]:
        """Removes the databases at the end."""
        with tempfile.TemporaryDirectory(prefix="seckill-shards-") as folder:
            self.folder = Path(folder)
            try:
                self.on_servers(f"CREATE DATABASE {self.template}")
                urls = [database_url(server.owner_url, self.template) for server in self.servers.shards]
                common.run([str(self.build.binary("seckill")), "--migrate"], env=self.databases_setting("owners", urls))
                yield self
            finally:
                self.flush()
                for database in (self.name, self.template, *self.kept):
                    self.drop(database)

    def service_settings(self) -> dict[str, str]:
        """Where the service finds its stores."""
        urls = [database_url(server.service_url, self.name) for server in self.servers.shards]
        redis_url = self.redis.url if len(self.masters) == 1 else self.servers.redis_url
        return {"SECKILL_REDIS_URL": redis_url} | self.databases_setting("shards", urls)

    def databases_setting(self, file: str, urls: list[str]) -> dict[str, str]:
        if len(urls) == 1:
            return {"SECKILL_DATABASE_URL": urls[0]}
        (self.folder / file).write_text("\n".join(urls))
        return {"SECKILL_SHARDS": str(self.folder / file)}

    def on_servers(self, statement: str) -> None:
        for server in self.servers.shards:
            server.postgres.rows(statement)

    def drop(self, database: str) -> None:
        self.on_servers(f"DROP DATABASE IF EXISTS {database}")

    def flush(self) -> None:
        for redis in self.masters:
            redis.call("FLUSHDB")

    def renew(self, template: str = "") -> None:
        """Resets the stores: nothing has been sold, or what the template holds. DROP DATABASE makes a checkpoint,
        which helps: every turn begins right after one."""
        self.flush()
        self.drop(self.name)
        self.on_servers(f"CREATE DATABASE {self.name} TEMPLATE {template or self.template}")
        self.servers.rewrite_append_only_files()
        self.empty_bytes = self.redis_bytes()

    def keep_as_template(self) -> str:
        """Saves the database, to which nobody may be connected, as a template. Returns the name for renew()."""
        template = f"{self.name}_{len(self.kept)}"
        self.on_servers(f"ALTER DATABASE {self.name} RENAME TO {template}")
        self.kept.append(template)
        return template

    # -- what they hold --

    def all_orders(self) -> int:
        """Orders of all vouchers that were not refused."""
        return sum(self.orders_by_shard())

    def orders_by_shard(self) -> list[int]:
        count = "SELECT count(*) FROM voucher_order WHERE status::text <> 'refused'"
        return [int(shard.rows(count)[0][0]) for shard in self.shards]

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

    def buyers(self) -> int:
        return sum(self.buyers_by_master())

    def buyers_by_master(self) -> list[int]:
        return [sum(map(int, of_keys(redis, "buyers", "HLEN {}"))) for redis in self.masters]

    def buyers_bytes(self) -> int:
        """Only the hashes of the buyers."""
        return self.bytes_of("buyers")

    def journal_bytes(self) -> int:
        return self.bytes_of("journal")

    def bytes_of(self, part: str) -> int:
        replies = (of_keys(redis, part, "MEMORY USAGE {} SAMPLES 0") for redis in self.masters)
        return sum(int(number) for reply in replies for number in reply)

    def redis_bytes(self) -> int:
        return sum(int(info(redis, "memory")["used_memory"]) for redis in self.masters)

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
        words = [word for redis in self.masters for word in of_keys(redis, "journal", "XINFO STREAM {}")]
        lengths, newest = ([words[i + 1] for i, word in enumerate(words) if word == name] for name in JOURNAL_FIELDS)
        return list(zip(map(int, lengths), newest))


def of_keys(redis: Redis, part: str, command: str) -> list[str]:
    """The replies to a command for this key of each voucher."""
    keys = redis.call("KEYS", f"seckill:*:{part}")
    return redis.each(command.format(key) for key in sorted(keys) if key)


def database_url(url: str, name: str) -> str:
    """The same server and login, another database."""
    return urllib.parse.urlsplit(url)._replace(path=f"/{name}").geturl()
