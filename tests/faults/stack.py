"""The real parts that faults are injected into: Redis, PostgreSQL, instances of the service, proxies between them.

Everything runs on its own loopback ports, with its data in a scratch folder under /var/tmp. PostgreSQL refuses to run
as root, and the user it then runs as must be able to enter the folder. Processes are ended by pid, all of them
together with the stack.
"""

from __future__ import annotations

import json
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

from machine import MACHINE, Deadline
from proxy import Proxy

ROOT = Path(__file__).resolve().parents[2]
ADMIN_TOKEN = "faults-admin-token"
REDIS_PASSWORD = "faults-redis-password"
OPERATE_TOKEN, OTHER_TOKEN = "faults-olga-token", "faults-otto-token"  # two operators
PAYMENTS_TOKEN, PAYMENT_SECRET = "faults-payments-token", "faults-payment-secret"
TOKENS = f"olga operate {OPERATE_TOKEN}\notto operate {OTHER_TOKEN}\nshop payments {PAYMENTS_TOKEN}\n"
# Short, so that waits are short; their relative order is that of the defaults.
PATIENCE = {
    "SECKILL_LOCK_TTL_MS": "800",
    "SECKILL_PG_TIMEOUT_MS": "1500",
    "SECKILL_REDIS_TIMEOUT_MS": "500",
    "SECKILL_CONFIRM_TIMEOUT_MS": "500",
    "SECKILL_IDLE_TIMEOUT_MS": "2000",
    "SECKILL_REQUEST_TIMEOUT_MS": "2000",
    "SECKILL_DRAIN_TIMEOUT_MS": "5000",
}


EMPTY = (
    "truncate voucher_order, seckill_voucher, voucher_stock, seckill_offer, dead_letter, order_event, payment, admin_event,"
    " stock_change, admin_request"
)


class Broken(Exception):
    """The suite itself cannot continue: reported in one line."""


class NotInjectable(Exception):
    """This machine cannot inject the fault."""


CLUSTER = bool(os.environ.get("TEST_REDIS_CLUSTER"))  # every Redis is a cluster of three masters
SHARDS = 2 if os.environ.get("TEST_SHARDS") else 1  # so many PostgreSQL servers at least share the vouchers
GIVEN: set[int] = set()


def free_port() -> int:
    """A port outside the range of client ports, each only once: a server may listen on it much later."""
    while True:
        port = random.SystemRandom().randrange(15000, 31000)
        with socket.socket() as probe:
            if port not in GIVEN and probe.connect_ex(("127.0.0.1", port)) != 0:
                GIVEN.add(port)
                return port


def wait_for(what: str, condition, seconds: float = 20.0, pause: float = 0.05) -> None:
    """This many seconds on a machine that is on time: see machine.py."""
    deadline = Deadline(seconds)
    while not condition():
        if deadline.passed():
            raise Broken(f"{what}: not within {seconds:.1f} s")
        time.sleep(pause)


class Process:
    """One process with a log file."""

    def __init__(self, name: str, log: Path):
        self.name, self.log, self.process = name, log, None

    def start(self, command: list[str], env: dict[str, str] | None = None, user: str | None = None) -> None:
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


def as_user(user: str | None) -> dict:
    return {"user": user, "group": user, "extra_groups": []} if user else {}


def rights() -> str:
    """The service has the rights of deploy/redis.acl; the suite, Redis's user `default`, has all."""
    service = (ROOT / "deploy/redis.acl").read_text().replace("SECKILL_REDIS_PASSWORD", REDIS_PASSWORD)
    service = "".join(line for line in service.splitlines(True) if not line.startswith("user default "))
    return service + "user default on nopass ~* &* +@all\n"


def redis_url(port: int) -> str:
    """The service's."""
    return f"redis://seckill:{REDIS_PASSWORD}@127.0.0.1:{port}"


class RedisServer(Process):
    address = "127.0.0.1"

    def __init__(self, folder: Path, name: str = "redis"):
        super().__init__(name, folder / f"{name}.log")
        self.dir, self.port, self.preload = folder / name, free_port(), {}
        self.dir.mkdir()
        self.acl = folder / f"{name}.acl"
        self.acl.write_text(rights())

    def run(self, appendfsync: str = "always", *extra: str) -> None:
        self.start(
            ["redis-server", "--bind", self.address, "--port", str(self.port), "--dir", str(self.dir), "--save", ""]
            + ["--appendonly", "yes", "--appendfsync", appendfsync, "--maxmemory-policy", "noeviction"]
            + ["--auto-aof-rewrite-percentage", "0", "--aclfile", str(self.acl), *extra],
            self.preload,
        )
        wait_for("Redis", self.answers)

    def answers(self) -> bool:
        if not self.alive():
            raise Broken(f"{self.name} has ended: {self.log.read_text()[-300:]}")
        return self.well()

    def well(self) -> bool:
        try:
            return self.alive() and self.call("PING", timeout=1) == "PONG"
        except (OSError, RuntimeError):
            return False

    def run_as_replica_of(self, master: RedisServer, seconds: float = 20.0) -> None:
        self.run("always", "--replicaof", master.address, str(master.port))
        wait_for("a replica", self.follows, seconds)

    def follows(self) -> bool:
        return "master_link_status:up" in self.call("INFO", "replication")

    def erase(self) -> None:
        shutil.rmtree(self.dir)
        self.dir.mkdir()

    def aof(self) -> Path:
        return max(self.dir.glob("appendonlydir/*.incr.aof"), key=lambda path: path.stat().st_mtime)

    def call(self, *words: object, timeout: float = 5.0):
        """One command on a separate connection. Errors are RuntimeError."""
        return self.calls([words], timeout)[0]

    def calls(self, commands, timeout: float = 5.0) -> list:
        """Many commands in one write. The first error is a RuntimeError."""
        sent = [self._command(words) for words in commands]
        with socket.create_connection((self.address, self.port), timeout=timeout) as link:
            link.sendall(b"".join(sent))
            stream = link.makefile("rb")
            return [self._read(stream) for _ in sent]

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


class PostgresServer(Process):
    def __init__(self, folder: Path, name: str = "pg", port: int = 0):
        super().__init__("postgres", folder / f"{name}.log")
        self.dir, self.port = folder / name, port or free_port()
        self.bin = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
        self.user = "postgres" if os.geteuid() == 0 else None
        self.dir.mkdir()
        if self.user:
            owner = pwd.getpwnam(self.user)
            os.chown(self.dir, owner.pw_uid, owner.pw_gid)
        self.fill()

    def fill(self) -> None:
        self._initdb()
        self.run()
        self.sql("create role owner login", database="postgres")
        self.sql("create role seckill_service; create role seckill_keeper", database="postgres")
        self.sql("create database seckill owner owner", database="postgres")

    def _initdb(self) -> None:
        self._tool("initdb", "-D", str(self.dir / "data"), "--auth", "trust", "-U", "postgres", "--no-sync",
                   "--locale", "C.UTF-8", "--encoding", "UTF8")

    def _tool(self, name: str, *arguments: str) -> None:
        command = [str(self.bin / name), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.dir, **as_user(self.user))
        if done.returncode != 0:
            raise Broken(f"{name}: {done.stderr[-300:]}")

    def run(self, seconds: float = 20.0) -> None:
        self.start(
            [str(self.bin / "postgres"), "-D", str(self.dir / "data"), "-k", str(self.dir), "-h", "127.0.0.1"]
            + ["-p", str(self.port), "-c", "fsync=on", "-c", "synchronous_commit=on", "-c", "deadlock_timeout=200ms"],
            user=self.user,
        )
        try:
            wait_for("PostgreSQL", self.answers, seconds)
        except Broken as error:
            raise Broken(f"{error}; its log ends: {self.log.read_text()[-600:]}") from error

    def answers(self) -> bool:
        if not self.alive():
            raise Broken(f"{self.name} has ended")
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
        done = subprocess.run(self.psql(database), input=script, text=True, capture_output=True)
        if done.returncode != 0:
            raise Broken(f"psql: {done.stderr.strip()}")
        return [line.split("\t") for line in done.stdout.splitlines()]

    def wait_for_standby(self, name: str) -> None:
        """From now on each commit waits for the standby of this name; "": for none."""
        self.sql(f"alter system set synchronous_standby_names = '{name}'", "postgres")
        self.sql("select pg_reload_conf()", "postgres")
        wait_for("its setting", lambda: self.sql("show synchronous_standby_names", "postgres") == [[name] if name else [""]])

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


class Shards:
    """Several servers that share the vouchers, as one: what is read of them is what they have together."""

    def __init__(self, servers: list[PostgresServer]):
        self.servers = servers

    def sql(self, script: str, database: str = "seckill") -> list[list[str]]:
        return [row for server in self.servers for row in server.sql(script, database)]

    def answers(self) -> bool:
        return all(server.answers() for server in self.servers)

    def alive(self) -> bool:
        return all(server.alive() for server in self.servers)

    def run(self) -> None:
        for server in self.servers:
            if not server.alive():
                server.run()

    def end(self, number: int) -> None:
        for server in self.servers:
            server.end(number)


class StandbyServer(PostgresServer):
    """A copy that follows a primary, which waits for it at each commit."""

    NAME = "standby"

    def __init__(self, folder: Path, name: str, primary: PostgresServer, port: int):
        self.primary = primary
        super().__init__(folder, name, port)

    def fill(self) -> None:
        source = f"host=127.0.0.1 port={self.primary.port} user=postgres application_name={self.NAME}"
        self._tool("pg_basebackup", "-D", str(self.dir / "data"), "-d", source, "-R", "--checkpoint=fast", "--no-sync")
        self.run()
        self.primary.wait_for_standby(self.NAME)
        wait_for("a synchronous standby", self.is_synchronous)

    def run_again(self) -> None:
        self.run()
        wait_for("a synchronous standby", self.is_synchronous)

    def is_synchronous(self) -> bool:
        states = "select sync_state from pg_stat_replication where state = 'streaming'"
        return self.primary.sql(states, "postgres") == [["sync"]]

    def promote(self) -> None:
        if self.sql("select pg_promote()", "postgres") != [["t"]]:
            raise Broken(f"{self.name} is not promoted")


class Instance(Process):
    def __init__(self, number: int, folder: Path, binary: Path, env: dict[str, str]):
        super().__init__(f"instance {number}", folder / f"instance-{number}.log")
        self.number, self.binary, self.port = number, binary, free_port()
        self.admin_port = self.port
        tokens = folder / "tokens"
        if not tokens.exists():  # another may be reading it
            tokens.with_suffix(".new").write_text(TOKENS)
            tokens.with_suffix(".new").rename(tokens)
        own = {
            "SECKILL_LISTEN": f"127.0.0.1:{self.port}",
            "SECKILL_ADMIN_TOKEN": ADMIN_TOKEN,
            "SECKILL_ADMIN_TOKENS_FILE": str(tokens),
            "SECKILL_PAYMENT_SECRET": PAYMENT_SECRET,
        }
        if "SECKILL_ADMIN_LISTEN" in env:  # whatever its value: each instance has its own port
            self.admin_port = free_port()
            own["SECKILL_ADMIN_LISTEN"] = f"127.0.0.1:{self.admin_port}"
        self.env = PATIENCE | env | own
        self.expected_exits: set[int] = {0}
        self.exits: list[int] = []
        self.fds_at_start = 0
        self.log.unlink(missing_ok=True)

    def run(self, env: dict[str, str] | None = None) -> None:
        self.note_exit()
        self.start([str(self.binary)], self.env | (env or {}))

    def signal(self, number: int) -> None:
        """A process that has just been started dies of SIGTERM; the service handles it from its first lines on."""
        deadline = Deadline(5.0)
        while number == signal.SIGTERM and self.alive() and not (self.ignores_sigpipe() or deadline.passed()):
            time.sleep(0.01)
        super().signal(number)

    def ignores_sigpipe(self) -> bool:
        """Which it does once it handles the other signals."""
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        except OSError:
            return False
        ignored = next((line for line in lines if line.startswith("SigIgn:")), "SigIgn: 0")
        return bool(int(ignored.split()[1], 16) >> (signal.SIGPIPE - 1) & 1)

    def wait_ready(self) -> None:
        wait_for(f"{self.name} ready", self.ready)
        self.fds_at_start = self.fds()

    def note_exit(self) -> None:
        if self.process is not None and self.process.poll() is not None:
            self.exits.append(self.process.returncode)
            self.process = None

    def ready(self) -> bool:
        if not self.alive():
            raise Broken(f"{self.name} has ended: {self.text()[-300:]}")
        return self.ask("GET", "/readyz")[0] == 200

    def ask(self, method: str, path: str, user: str = "", body: dict | None = None, timeout: float = 5.0, headers=None):
        """(status, document); (0, {}) when there is no answer."""
        who = {"Authorization": f"Bearer {ADMIN_TOKEN}"} if path.startswith("/admin") else {"X-User-Id": user}
        headers = (headers or {}) if "Authorization" in (headers or {}) else who | (headers or {})
        data = b"" if method == "POST" else None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        port = self.admin_port if path.startswith(("/admin", "/metrics")) else self.port
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            try:
                return error.code, json.load(error)
            except ValueError:
                return error.code, {}
        except (OSError, ValueError):
            return 0, {}

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def fds(self) -> int:
        try:
            return len(os.listdir(f"/proc/{self.pid}/fd"))
        except (OSError, AttributeError):
            return 0


class Stack:
    def __init__(self, binary: Path):
        MACHINE.watch()
        self.binary = binary
        self.folder = Path(tempfile.mkdtemp(prefix="seckill-faults.", dir="/var/tmp"))
        self.folder.chmod(0o755)
        self.redis: RedisServer | None = None
        self.redis_settings: tuple[str, ...] = ()
        self.others: list[Process] = []  # of one fault
        self.instances: list[Instance] = []
        self.mounts: list[Path] = []
        self.servers = 0
        self.postgres: PostgresServer | Shards = PostgresServer(self.folder)
        self.shards = [self.postgres]
        self.standby: StandbyServer | None = None  # of one fault
        self.addresses: dict[str, str] = {}  # of one fault: where instances find stores, if not directly
        self.migrate()
        self.cluster = None  # the same as `redis`, if that is one
        self.redis_proxy, self.pg_proxy = Proxy(free_port()), Proxy(free_port())
        self.one_proxy = self.redis_proxy
        self.more_proxies: list[Proxy] = []  # of one fault

    def migrate(self) -> None:
        env = os.environ | self.database("owner", self.shards[0].port)
        done = subprocess.run([str(self.binary), "--migrate"], env=env, capture_output=True, text=True)
        if done.returncode != 0:
            raise Broken(f"migrate: {done.stderr}")
        for server in self.shards:
            if not server.sql("select 1 from pg_roles where rolname = 'seckill'"):
                server.sql("create role seckill login in role seckill_service")

    def database(self, login: str, first_port: int) -> dict[str, str]:
        """The setting that names the database, or the shards."""
        urls = [self.shards[0].url(login, first_port), *(server.url(login) for server in self.shards[1:])]
        if len(urls) == 1:
            return {"SECKILL_DATABASE_URL": urls[0]}
        file = self.folder / f"shards-{login}-{first_port}"
        file.write_text("\n".join(urls) + "\n")
        return {"SECKILL_SHARDS": str(file)}

    def share(self, count: int) -> None:
        """From now on so many servers share the vouchers. There are none after this."""
        if len(self.shards) == count:
            return
        for server in self.shards[count:]:
            server.end(signal.SIGINT)
            shutil.rmtree(server.dir)
        self.shards = self.shards[:count]
        while len(self.shards) < count:
            self.servers += 1
            self.shards.append(PostgresServer(self.folder, f"pg-{self.servers}"))
        self.postgres = self.shards[0] if count == 1 else Shards(self.shards)
        if not self.shards[0].alive():
            self.shards[0].run()
        self.shards[0].sql(EMPTY)
        self.migrate()

    def new_redis(self) -> RedisServer:
        self.servers += 1
        return RedisServer(self.folder, f"redis-{self.servers}")

    def new_replica(self) -> RedisServer:
        """It follows the stack's Redis, for one fault."""
        replica = self.new_redis()
        self.others.append(replica)
        replica.run_as_replica_of(self.redis)
        return replica

    def prepare(self, appendfsync: str, fresh_redis: bool = False, proxied: bool = False, replicas: int = 0) -> None:
        """Fresh stores, and proxies without faults. With replicas, or if CLUSTER says so, Redis is a cluster."""
        fresh_redis = fresh_redis or replicas > 0
        if self.redis is None or not self.redis.well() or (appendfsync,) != self.redis_settings or fresh_redis:
            self.end_redis()
            self.redis_settings = (appendfsync,)
            if CLUSTER or replicas:
                self.start_cluster(replicas)
            else:
                self.redis = self.new_redis()
                self.redis.run(*self.redis_settings)
        if self.cluster is not None:
            self.cluster.show(proxied)
        self.redis.call("FLUSHALL")
        if not self.postgres.alive():
            self.postgres.run()
        self.postgres.sql(EMPTY)
        self.redis_proxy.reset(0 if self.cluster is not None else self.redis.port)
        self.pg_proxy.reset(self.shards[0].port)

    def start_cluster(self, replicas: int) -> None:
        from clusters import Cluster  # which builds on this module

        self.cluster = self.redis = Cluster(self, replicas).create(*self.redis_settings)
        self.redis_proxy = self.cluster.proxies

    def end_redis(self) -> None:
        if self.cluster is not None:
            self.cluster.close()
            self.redis_proxy = self.one_proxy
        elif self.redis is not None:
            self.redis.end(signal.SIGKILL)
            shutil.rmtree(self.redis.dir, ignore_errors=True)
        self.redis = self.cluster = None

    def add_standby(self, port: int = 0) -> None:
        self.servers += 1
        self.standby = StandbyServer(self.folder, f"pg-{self.servers}", self.postgres, port)

    def fail_over(self) -> None:
        """The standby takes the place of the primary, which is dead; also for the faults after this one."""
        dead, self.postgres, self.standby = self.postgres, self.standby, None
        self.shards = [self.postgres]
        self.postgres.promote()
        shutil.rmtree(dead.dir)

    def store_urls(self, proxied: bool) -> dict[str, str]:
        if self.cluster is not None:
            redis = self.cluster.url(proxied)
        else:
            redis = redis_url(self.redis_proxy.port if proxied else self.redis.port)
        pg_port = self.pg_proxy.port if proxied else self.shards[0].port
        database = self.database("seckill", pg_port)
        if self.standby is not None:  # first, so that each link must pass it over
            url = database["SECKILL_DATABASE_URL"].replace("@", f"@127.0.0.1:{self.standby.port},")
            database = {"SECKILL_DATABASE_URL": url}
        return {"SECKILL_REDIS_URL": redis} | database | self.addresses

    def launch(self, count: int, env: dict[str, str], first_env: dict[str, str], proxied: bool) -> None:
        urls = self.store_urls(proxied)
        self.instances = [Instance(number, self.folder, self.binary, urls | env) for number in range(count)]
        for instance in self.instances:
            instance.run(first_env if instance.number == 0 else None)
        for instance in self.instances:
            instance.wait_ready()

    def another_proxy(self, upstream: int) -> Proxy:
        """For one instance alone, so that it has another store than the others."""
        proxy = Proxy(free_port())
        proxy.reset(upstream)
        self.more_proxies.append(proxy)
        return proxy

    def land(self) -> None:
        """Ends everything of one fault. Instances must exit cleanly."""
        for instance in self.instances:
            instance.note_exit()
            instance.signal(signal.SIGTERM)
        for instance in self.instances:
            if instance.process is not None:
                ended = instance.end(signal.SIGTERM) is not None
                instance.note_exit()
                if not ended:  # SIGKILL may be expected of an instance that a fault has killed before
                    instance.exits.append("nothing but SIGKILL")
        for other in self.others:
            other.end(signal.SIGKILL)
        self.others, self.addresses = [], {}
        self.end_standby()
        for proxy in self.more_proxies:
            proxy.close()
        self.more_proxies = []

    def end_standby(self) -> None:
        if self.standby is None:
            return
        self.standby.stop_immediate()
        shutil.rmtree(self.standby.dir)
        self.standby = None
        if not self.postgres.alive():
            self.postgres.run()
        self.postgres.wait_for_standby("")

    def small_disk(self, name: str, megabytes: int) -> Path:
        """A separate file system that can be filled up."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0777", "tmpfs", str(folder)]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError as error:
            raise NotInjectable("there is no mount") from error
        if done.returncode != 0:
            raise NotInjectable(f"mount: {done.stderr.strip()}")
        self.mounts.append(folder)
        return folder

    def unmount(self, *folders: Path) -> None:
        for folder in folders or self.mounts:
            subprocess.run(["umount", "-l", str(folder)], capture_output=True)
        self.mounts = [folder for folder in self.mounts if folders and folder not in folders]

    def close(self) -> None:
        for process in [*self.instances, *self.others]:
            process.end(signal.SIGKILL)
        self.end_redis()
        if self.standby is not None:
            self.standby.end(signal.SIGINT)
        self.postgres.end(signal.SIGINT)
        self.redis_proxy.close()
        self.pg_proxy.close()
        self.unmount()
        shutil.rmtree(self.folder, ignore_errors=True)
