"""Private servers of tests: Redis and PostgreSQL, each a process of ours.

They listen on their own loopback ports, with their data in a folder of the caller. PostgreSQL refuses to run as root, and
the user it then runs as must be able to enter the folder. Processes are ended by pid. Test programs in C have them from
launcher.py.
"""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The passwords only keep out strangers on this machine; that they also test authentication is a benefit.
REDIS_PASSWORD, DATABASE_PASSWORD = "redis-password", "db-password"
PORT_FIRST, PORTS, PORTS_EACH = 15000, 16000, 64  # PORTS_EACH: those that a program alone takes, at first
READY_S = 60.0  # a server that has ended is noticed at once
GIVEN: dict[int, int] = {}  # how many; by process, since a fork takes its own


class Broken(Exception):
    """The tests themselves cannot continue: reported in one line."""


def free_port() -> int:
    """Below the kernel's range of client ports, and the first ones by our process id. So no client connection or parallel
    program takes a port while the server that owns it restarts."""
    pid = os.getpid()
    while True:
        given = GIVEN[pid] = GIVEN.get(pid, 0) + 1
        place = pid * PORTS_EACH + given if given < PORTS_EACH else int.from_bytes(os.urandom(4), "big")
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", PORT_FIRST + place % PORTS))
            return PORT_FIRST + place % PORTS


def await_ready(what: str, condition, seconds: float = READY_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Broken(f"{what}: not within {seconds:.1f} s")
        time.sleep(0.005)


def as_user(user: str | None) -> dict:
    return {"user": user, "group": user, "extra_groups": []} if user else {}


def migrate(binary: Path, setting: dict[str, str]) -> None:
    done = subprocess.run([str(binary), "--migrate"], env=os.environ | setting, capture_output=True, text=True)
    if done.returncode != 0:
        raise Broken(f"migrate: {done.stderr}")


class Process:
    """One process with a log file."""

    death_signal = ""  # if it has one, the kernel sends it when the thread that started the process ends

    def __init__(self, name: str, log: Path):
        self.name, self.log, self.process = name, log, None

    def start(self, command: list[str], env: dict[str, str] | None = None, user: str | None = None) -> None:
        if self.death_signal:
            command = ["setpriv", "--pdeathsig", self.death_signal, *command]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | (env or {}),
                start_new_session=True,
                **as_user(user),
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def must_live(self) -> None:
        if not self.alive():
            raise Broken(f"{self.name} has ended: {self.log.read_text(errors='replace')[-600:]}")

    def signal(self, number: int) -> None:
        if self.alive():
            os.kill(self.pid, number)

    def end(self, number: int, seconds: float = 15.0) -> int | None:
        """Signals and waits; returns the exit code (negative: the signal that ended it)."""
        if self.process is None:
            return None
        self.signal(number)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGKILL)
            self.process.wait()
            return None


# ---- Redis ----


def rights(default: str = "", *more: str) -> str:
    """deploy/redis.acl with the service's password: the service has no other rights. Perhaps with another line for the
    user `default`, and with more users."""
    lines = (ROOT / "deploy/redis.acl").read_text().replace("SECKILL_REDIS_PASSWORD", REDIS_PASSWORD).splitlines()
    lines = [default if default and line.startswith("user default ") else line for line in lines]
    return "\n".join([*lines, *more]) + "\n"


def redis_url(port: int) -> str:
    """The service's."""
    return f"redis://seckill:{REDIS_PASSWORD}@127.0.0.1:{port}"


def shipped_settings() -> list[str]:
    """Those of deploy/redis.conf, as words: a file is rewritten by sentinels."""
    lines = [line.split() for line in (ROOT / "deploy/redis.conf").read_text().splitlines()]
    settings = [words for words in lines if words and not words[0].startswith("#")]
    return [word.strip('"') for name, *values in settings for word in (f"--{name}", *values)]


class RedisServer(Process):
    address = "127.0.0.1"
    acl_text = rights("user default on nopass ~* &* +@all")
    login: tuple[str, ...] = ()  # ours: user and password

    def __init__(self, folder: Path, name: str = "redis"):
        super().__init__(name, folder / f"{name}.log")
        self.dir, self.port, self.preload = folder / name, free_port(), {}
        self.dir.mkdir()
        self.acl = folder / f"{name}.acl"
        self.acl.write_text(self.acl_text)

    def launch(self, *settings: str) -> None:
        self.start(
            ["redis-server", *shipped_settings(), "--bind", self.address, "--port", str(self.port)]
            + ["--dir", str(self.dir), "--aclfile", str(self.acl), *settings],
            self.preload,
        )

    def run(self, appendfsync: str = "always", *extra: str) -> None:
        self.launch("--appendfsync", appendfsync, "--auto-aof-rewrite-percentage", "0", *extra)
        await_ready("Redis", self.answers)

    def answers(self) -> bool:
        self.must_live()
        return self.well()

    def well(self) -> bool:
        try:
            return self.alive() and self.call("PING", timeout=1) == "PONG"
        except (OSError, RuntimeError):
            return False

    def run_as_replica_of(self, master: RedisServer) -> None:
        self.run("always", "--replicaof", master.address, str(master.port))
        await_ready("a replica", self.follows)

    def follows(self) -> bool:
        return "master_link_status:up" in self.call("INFO", "replication")

    def erase(self) -> None:
        """Its data. A node of a cluster keeps its slots, which are in nodes.conf."""
        for path in self.dir.glob("appendonlydir/*"):
            path.unlink()

    def aof(self) -> Path:
        return max(self.dir.glob("appendonlydir/*.incr.aof"), key=lambda path: path.stat().st_mtime)

    def call(self, *words: object, timeout: float = 5.0):
        """One command on a separate connection. Errors are RuntimeError."""
        return self.calls([words], timeout)[0]

    def calls(self, commands, timeout: float = 5.0) -> list:
        """Many commands in one write. The first error is a RuntimeError."""
        greeting = [("AUTH", *self.login)] if self.login else []
        sent = [self._command(words) for words in [*greeting, *commands]]
        with socket.create_connection((self.address, self.port), timeout=timeout) as link:
            link.sendall(b"".join(sent))
            stream = link.makefile("rb")
            return [self._read(stream) for _ in sent][len(greeting):]

    @staticmethod
    def _command(words) -> bytes:
        parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)

    def _read(self, stream):
        line = stream.readline().rstrip(b"\r\n")
        if not line:
            raise OSError("Redis hung up")
        kind, rest = line[:1], line[1:].decode()
        if kind == b"+":
            return rest
        if kind == b"-":
            raise RuntimeError(rest)
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == "-1" else stream.read(int(rest) + 2)[:-2].decode("latin-1")
        return None if rest == "-1" else [self._read(stream) for _ in range(int(rest))]


# ---- PostgreSQL ----


class PostgresServer(Process):
    settings = ("fsync=on", "synchronous_commit=on", "deadlock_timeout=200ms")
    auth = "trust"
    preload: dict[str, str] = {}

    def __init__(self, folder: Path, name: str = "pg", port: int = 0):
        super().__init__("postgres", folder / f"{name}.log")
        self.dir, self.port = folder / name, port or free_port()
        self.bin = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
        self.user = "postgres" if os.geteuid() == 0 else None
        self.dir.mkdir()
        self.own(self.dir)
        self.fill()

    def fill(self) -> None:
        """The roles are those of deploy/owner.sql, and `owner` in the place of `seckill_owner`."""
        self.initdb()
        self.run()
        self.sql(f"create role owner login password '{DATABASE_PASSWORD}'", "postgres")
        self.sql("create role seckill_service; create role seckill_keeper", "postgres")
        self.sql("create database seckill owner owner", "postgres")

    def give_logins(self) -> None:
        """As deploy/login.sql, after the migration."""
        for login, role in (("seckill", "seckill_service"), ("keeper", "seckill_keeper")):
            if not self.sql(f"select 1 from pg_roles where rolname = '{login}'"):
                self.sql(f"create role {login} login password '{DATABASE_PASSWORD}' in role {role}")

    def initdb(self) -> None:
        (self.dir / "password").write_text(DATABASE_PASSWORD + "\n")
        self.tool("initdb", "-D", str(self.dir / "data"), "--auth", self.auth, "--pwfile", "password", "-U", "postgres",
                  "--no-sync", "--locale", "C.UTF-8", "--encoding", "UTF8")

    def own(self, path: Path) -> None:
        if self.user:
            owner = pwd.getpwnam(self.user)
            os.chown(path, owner.pw_uid, owner.pw_gid)

    def tool(self, name: str, *arguments: str) -> None:
        """One of PostgreSQL's programs, in its folder."""
        command = [str(self.bin / name), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.dir, **as_user(self.user))
        if done.returncode != 0:
            raise Broken(f"{name}: {done.stderr[-300:]}")

    def base_backup(self, name: str, wal: str = "stream") -> Path:
        """Makes one of the running server, in its folder."""
        folder = self.dir / name
        self.tool("pg_basebackup", "-h", str(self.dir), "-p", str(self.port), "-U", "postgres", "-D", str(folder), "-X", wal,
                  "-c", "fast", "--no-sync")
        return folder

    def launch(self) -> None:
        self.start(
            [str(self.bin / "postgres"), "-D", str(self.dir / "data"), "-k", str(self.dir), "-h", "127.0.0.1"]
            + ["-p", str(self.port), *(word for setting in self.settings for word in ("-c", setting))],
            self.preload,
            self.user,
        )

    def run(self, seconds: float = READY_S) -> None:
        self.launch()
        await_ready("PostgreSQL", self.is_ready, seconds)

    def is_ready(self) -> bool:
        """By its own file, which costs no connection. A killed server leaves one, with another pid."""
        self.must_live()
        try:
            lines = (self.dir / "data/postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return lines[:1] == [str(self.pid)] and lines[7:8] != [] and lines[7].strip() == "ready"

    def answers(self) -> bool:
        self.must_live()
        try:
            return self.sql("select 1", database="postgres") == [["1"]]
        except Broken:
            return False

    def url(self, login: str, port: int | None = None) -> str:
        return f"postgresql://{login}@127.0.0.1:{port or self.port}/seckill"

    def psql(self, *more: str) -> list[str]:
        command = ["psql", "-XAtq", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", str(self.port)]
        return command + ["-U", "postgres", *more]

    def sql(self, script: str, database: str = "seckill") -> list[list[str]]:
        """Runs the script as superuser in one session and returns the rows of all its queries."""
        env = os.environ | {"PGPASSWORD": DATABASE_PASSWORD}
        done = subprocess.run(self.psql(database), input=script, text=True, capture_output=True, env=env)
        if done.returncode != 0:
            raise Broken(f"psql: {done.stderr.strip()}")
        return [line.split("\t") for line in done.stdout.splitlines()]

    def wait_for_standby(self, name: str) -> None:
        """From now on each commit waits for the standby of this name; "": for none."""
        self.sql(f"alter system set synchronous_standby_names = '{name}'", "postgres")
        self.sql("select pg_reload_conf()", "postgres")
        await_ready("its setting", lambda: self.sql("show synchronous_standby_names", "postgres") == [[name] if name else [""]])

    def stop_immediate(self) -> None:
        self.end(signal.SIGQUIT)

    def kill(self) -> None:
        """As when its machine dies: no process of it does anything more."""
        self.hang()
        self.signal_children(signal.SIGKILL)
        self.end(signal.SIGKILL)

    def signal_children(self, number: int) -> None:
        for child in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split():
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(int(child), number)

    def hang(self) -> None:
        """No process of it does anything more, but its connections stay."""
        self.signal(signal.SIGSTOP)  # it starts no others meanwhile
        self.signal_children(signal.SIGSTOP)

    def go_on(self) -> None:
        self.signal_children(signal.SIGCONT)
        self.signal(signal.SIGCONT)
