"""The real parts that faults are injected into: Redis, PostgreSQL (tests/harness/stores.py), instances of the service,
proxies between them.

Everything runs on its own loopback ports, with its data in a scratch folder under /var/tmp, and ends together with the
stack.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "harness"))

from machine import MACHINE, Deadline  # noqa: E402
from proxy import Proxy  # noqa: E402
from stores import (  # noqa: E402, F401: others have them from here
    REDIS_PASSWORD,
    ROOT,
    Broken,
    PostgresServer,
    Process,
    RedisServer,
    free_port,
    migrate,
    redis_url,
    rights,
)

ADMIN_TOKEN = "faults-admin-token"
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
    " stock_change, admin_request, order_placed, sale_event, sale_phase, webhook_receiver, expiry_hold, voucher_line"
)


class NotInjectable(Exception):
    """This machine cannot inject the fault."""


CLUSTER = bool(os.environ.get("TEST_REDIS_CLUSTER"))  # every Redis is a cluster of three masters
SHARDS = 2 if os.environ.get("TEST_SHARDS") else 1  # so many PostgreSQL servers at least share the vouchers


def wait_for(what: str, condition, seconds: float = 20.0, pause: float = 0.05) -> None:
    """This many seconds on a machine that is on time: see machine.py."""
    deadline = Deadline(seconds)
    while not condition():
        if deadline.passed():
            raise Broken(f"{what}: not within {seconds:.1f} s")
        time.sleep(pause)


class Shards:
    """Several servers that share the vouchers, as one: what is read of them is what they have together."""

    def __init__(self, servers: list[PostgresServer]):
        self.servers = servers

    def sql(self, script: str, database: str = "seckill") -> list[list[str]]:
        return [row for server in self.servers for row in server.sql(script, database)]

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
        self.tool("pg_basebackup", "-D", str(self.dir / "data"), "-d", source, "-R", "--checkpoint=fast", "--no-sync")
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
        migrate(self.binary, self.database("owner", self.shards[0].port))
        for server in self.shards:
            server.give_logins()

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
