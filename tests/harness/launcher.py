"""The servers of one test program in C (launcher.c), whose child this is: `launcher.py BINARY`, the service's.

It reads commands, a line each, and answers each with lines NAME=VALUE and then `ok`; or with `failed`, and prints the
reason to standard error. When its input ends, it ends the servers and removes the scratch folder: the input ends with the
test program, even if that is killed. If this program is killed itself, the kernel ends the servers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import stores
from stores import DATABASE_PASSWORD, REDIS_PASSWORD, Broken, PostgresServer, Process, RedisServer, await_ready

NODES, SHARDS, SLOTS = 3, 2, 16384
SWEEP_S = 20.0


class Launcher:
    """Its commands are its public methods, which return the values of the answer."""

    def __init__(self):
        parent = os.environ.get("TMPDIR", "/tmp")
        self._folder = Path(parent, f"seckill-test.{os.getpid()}-{os.urandom(3).hex()}")
        self._folder.mkdir()
        self._folder.chmod(0o711)  # PostgreSQL's user must reach its own folder

    def folder(self) -> dict:
        return {"folder": self._folder}

    def port(self) -> dict:
        return {"port": stores.free_port()}

    def _all(self) -> list[Process]:
        return []

    def _serve(self) -> None:
        try:
            for command in sys.stdin:
                if command == "end\n":
                    break
                sys.stdout.write(self._answer(*command.split()))
                sys.stdout.flush()
        finally:
            self._end()

    def _answer(self, name: str, *words: str) -> str:
        try:
            values = getattr(self, name)(*words) or {}
        except (Broken, OSError, RuntimeError, subprocess.SubprocessError) as error:
            print(f"{name} {' '.join(words)}: {error}", file=sys.stderr, flush=True)
            return "failed\n"
        return "".join(f"{name}={value}\n" for name, value in values.items()) + "ok\n"

    def _end(self) -> None:
        servers = [(one, signal.Signals["SIG" + one.death_signal]) for one in self._all()]
        for one, number in servers:
            one.signal(number)
        for one, number in servers:
            one.end(number)
        until = time.monotonic() + SWEEP_S
        while self._folder.exists() and time.monotonic() < until:  # instances that die may still write
            remove(self._folder)


def copy(cluster: str | Path, target: str | Path) -> None:
    """It keeps its owner."""
    subprocess.run(["cp", "-a", str(cluster), str(target)], check=True)


def remove(folder: str | Path) -> None:
    subprocess.run(["rm", "-rf", str(folder)], stderr=subprocess.DEVNULL)


class Redis(RedisServer):
    death_signal = "KILL"
    login = ("tests", REDIS_PASSWORD)
    acl_text = stores.rights("", f"user tests on >{REDIS_PASSWORD} ~* &* +@all")


class Node(Redis):
    """A master of a cluster."""

    def __init__(self, folder: Path, number: int):
        super().__init__(folder, f"redis-{number}")
        self.number, self.bus = number, stores.free_port()

    def launch(self) -> None:
        super().launch("--cluster-enabled", "yes", "--cluster-port", str(self.bus), "--cluster-node-timeout", "2000",
                       "--cluster-require-full-coverage", "no")

    def join(self, first: Node) -> None:
        begin, end = (SLOTS * number // NODES for number in (self.number, self.number + 1))
        self.call("CLUSTER", "ADDSLOTSRANGE", begin, end - 1)
        self.call("CLUSTER", "SET-CONFIG-EPOCH", self.number + 1)
        if self is not first:
            self.call("CLUSTER", "MEET", first.address, first.port, first.bus)

    def is_whole(self) -> bool:
        info = self.call("CLUSTER", "INFO")
        return "cluster_state:ok" in info and f"cluster_slots_ok:{SLOTS}" in info


class Postgres(PostgresServer):
    death_signal = "QUIT"
    auth = "scram-sha-256"
    settings = ()  # they are in the cluster's own file, where a test may change them

    def __init__(self, folder: Path, name: str, binary: Path, made: str | None):
        self.binary, self.made = binary, made
        super().__init__(folder, name)

    def fill(self) -> None:
        """Making and migrating a cluster takes most of a short program's time, so all programs copy one if it exists."""
        if self.made:
            copy(self.made, self.dir / "data")
            return
        super().fill()
        stores.migrate(self.binary, {"SECKILL_DATABASE_URL": self.url("owner")})
        self.give_logins()

    def initdb(self) -> None:
        """With deploy/postgresql.conf, but without fsync: the tests crash processes, not the machine."""
        super().initdb()
        with open(self.dir / "data/postgresql.conf", "a", encoding="utf-8") as file:
            file.write((stores.ROOT / "deploy/postgresql.conf").read_text() + "fsync = off\n")

    def url(self, login: str, port: int | None = None) -> str:
        return super().url(f"{login}:{DATABASE_PASSWORD}", port)

    def stop(self) -> None:
        self.must_live()
        if self.end(signal.SIGINT) != 0:  # which does not wait for clients to disconnect
            raise Broken(f"{self.name} did not end well")


class Stores(Launcher):
    def __init__(self, binary: Path):
        super().__init__()
        self._binary = binary
        self._redis: list[Redis] = []
        self._postgres: list[Postgres] = []

    def start(self, *parts: str) -> dict:
        """Each of these parts, unless it runs; all are waited for together."""
        made = {}
        if "redis" in parts and not self._redis:
            made |= self._make_redis()
        if "postgres" in parts and not self._postgres:
            made |= self._make_postgres()
        dead = [one for part in parts for one in self._servers(part) if not one.alive()]
        for one in dead:
            one.launch()
        for one in dead:
            await_ready(one.name, one.answers if isinstance(one, Redis) else one.is_ready)
        nodes = [one for one in dead if isinstance(one, Node)]
        for one in nodes if "redis_url" in made else []:
            one.join(nodes[0])
        await_ready("a whole cluster", lambda: all(one.is_whole() for one in nodes))
        if "database_url" in made and len(self._postgres) > 1:
            name, _, value = self._setting("owner").partition("=")
            stores.migrate(self._binary, {name: value})  # it gives them their numbers
        return made

    def kill(self, part: str) -> None:
        self._signal(part, signal.SIGKILL)
        for one in self._servers(part):
            one.end(signal.SIGKILL)

    def pause(self, part: str) -> None:
        self._signal(part, signal.SIGSTOP)

    def resume(self, part: str) -> None:
        self._signal(part, signal.SIGCONT)

    def erase(self, part: str) -> None:
        for one in self._servers(part):
            if one.alive():
                raise Broken(f"{one.name} runs")
            one.erase()

    def stop(self, part: str) -> None:
        for one in self._servers(part):
            one.stop()

    def mend(self) -> None:
        """Starts or resumes what a test has left dead or paused."""
        for one in self._redis:
            one.signal(signal.SIGCONT)
        self.start(*(part for part in ("redis", "postgres") if self._servers(part)))

    def keep(self, path: str) -> None:
        self.stop("postgres")
        remove(path)
        copy(self._postgres[0].dir / "data", path)

    def _servers(self, part: str) -> list:
        return {"redis": self._redis, "postgres": self._postgres}[part]

    def _signal(self, part: str, number: int) -> None:
        for one in self._servers(part):
            one.must_live()
            one.signal(number)

    def _make_redis(self) -> dict:
        cluster = "TEST_REDIS_CLUSTER" in os.environ
        self._redis = [Node(self._folder, n) for n in range(NODES)] if cluster else [Redis(self._folder)]
        url = stores.redis_url(self._redis[0].port).replace("redis:", "redis+cluster:" if cluster else "redis:")
        values = {f"redis_port_{n}": one.port for n, one in enumerate(self._redis)}
        return values | {"redis_nodes": len(self._redis), "redis_url": url, "redis_tests_url": url.replace("seckill", "tests")}

    def _make_postgres(self) -> dict:
        count = SHARDS if "TEST_SHARDS" in os.environ else 1
        names = ["postgres", *(f"postgres-{n}" for n in range(1, count))]
        self._postgres = [Postgres(self._folder, name, self._binary, os.environ.get("HARNESS_CLUSTER")) for name in names]
        values = {f"superuser_url_{n}": one.url("postgres") for n, one in enumerate(self._postgres)}
        logins = {"database": "seckill", "keeper": "keeper", "owner": "owner"}
        values |= {f"{name}_url": self._postgres[0].url(login) for name, login in logins.items()}
        values |= {f"{name}_setting": self._setting(login) for name, login in logins.items()}
        return values | {"shards": count}

    def _setting(self, login: str) -> str:
        """With which a login finds the database, or all shards."""
        urls = [one.url(login) for one in self._postgres]
        if len(urls) == 1:
            return f"SECKILL_DATABASE_URL={urls[0]}"
        file = self._folder / f"shards-{login}"
        file.write_text("\n".join(urls) + "\n")
        return f"SECKILL_SHARDS={file}"

    def _all(self) -> list[Process]:
        return [*self._redis, *self._postgres]


if __name__ == "__main__":
    for name in [name for name in os.environ if name.startswith(("SECKILL_", "PG"))]:
        del os.environ[name]
    Stores(Path(sys.argv[1]))._serve()
