"""One round of each contender of the benchmark: its server, its crowd, and the proof that it did the work.

A round counts only if the stores agree with it: the winners that wrk saw are buyers in Redis and,
where rows were promised, rows in PostgreSQL. What a round leaves behind is removed before the next.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import secrets
import signal
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import common
from common import Failure, Voucher

CONTENDERS = common.ROOT / "loadtest" / "contenders"
BUILD = common.ROOT / "build"
UNITS = 100_000_000  # more than any round can sell: everybody wins
NGINX_WORKERS = 2
WEBDIS_THREADS = 2
WEBDIS_POOL = 64
PIPELINE = 16  # of redis-benchmark; times its connections = the orders in flight
ORDER_ID = "01890a5d-ac96-774b-bcce-b302099a8057"  # where the client must bring one; Redis only stores it

BARE = Voucher("999999999999", UNITS)  # lives in Redis only


# ---- CPU time and memory of others, from /proc ----


def process_table() -> dict[int, tuple[int, float]]:
    """pid -> parent, CPU seconds of itself and of the children it has buried."""
    table = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        table[int(stat.parent.name)] = int(fields[1]), sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return table


def cpu_seconds(root: int) -> float:
    """CPU time of a process and of everything below it."""
    table, total, family = process_table(), 0.0, [root]
    while family:
        pid = family.pop()
        total += table[pid][1] if pid in table else 0
        family += [child for child, (parent, _) in table.items() if parent == pid]
    return total


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
    """Starts a contender and asks it until it answers without a server error."""
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
        common.wait_for(f"{command[0]} at {server.url}{ready}", answers, 20)
    except Failure:
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


# ---- rounds ----


@dataclass
class Sample:
    """One contender in one round. CPU is in seconds for 1,000 answers, by process."""

    rps: float  # good answers only
    p50_ms: float
    p99_ms: float
    refused: int
    cpu: dict[str, float]
    committed_rps: float | None = None
    server_bytes: int | None = None
    buyer_bytes: float | None = None  # the buyers' hash alone
    redis_buyer_bytes: float | None = None  # all that Redis has grown by


class Rounds:
    """The stores, the servers, and for each contender the method of its name that measures one round."""

    def __init__(self, options: argparse.Namespace, folder: Path):
        env = common.environment()
        missing = [name for name in ("REDIS_URL", "DATABASE_URL", "SECKILL_DATABASE_URL") if not env.get(name)]
        if missing:
            raise Failure(f"no Redis and PostgreSQL to run on: run ./dev up, or set {', '.join(missing)}")
        self.env, self.options, self.folder = env, options, folder
        self.redis, self.postgres = common.Redis(env["REDIS_URL"]), common.Postgres(env["DATABASE_URL"])
        self.token = secrets.token_hex(16)
        self.servers: dict[str, Server] = {}
        self.store_pids = {"redis": int(self.redis_server("process_id")), "postgres": self.postgres_pid()}
        script = (common.ROOT / "lua" / "place_orders.lua").read_text()
        self.script_sha = self.redis.call("SCRIPT", "LOAD", stdin=script)[0]
        self.redis_run = self.redis_server("run_id")

    def redis_server(self, field: str) -> str:
        lines = (line.strip().partition(":") for line in self.redis.call("INFO", "server"))
        return next(value for name, _, value in lines if name == field)

    def postgres_pid(self) -> int:
        """The postmaster's: it is the parent of the backend that answers."""
        script = "SELECT pg_backend_pid() AS pid \\gset\n\\setenv BACKEND :pid\n\\! cut -d' ' -f4 /proc/$BACKEND/stat\n"
        return int(self.postgres.rows(script)[0][0])

    # -- servers --

    def start_servers(self, names: set[str]) -> None:
        if "ceiling" in names:
            self.start_ours("ceiling", "seckill-ceiling", ready="/", env={})
        if names & {"durable", "respond_async", "sold_out"}:
            env = {
                "SECKILL_DATABASE_URL": self.env["SECKILL_DATABASE_URL"],
                "SECKILL_REDIS_URL": self.env["REDIS_URL"],
                "SECKILL_ADMIN_TOKEN": self.token,
            }
            self.start_ours("service", "seckill", ready="/readyz", env=env)
        if "webdis" in names:
            self.start_webdis()
        if "nginx_lua" in names:
            self.start_nginx()

    def stop_servers(self) -> None:
        for server in self.servers.values():
            server.stop()

    def start_ours(self, name: str, binary: str, ready: str, env: dict[str, str]) -> None:
        if not (BUILD / binary).exists():
            raise Failure(f"there is no build/{binary}: run ./dev build")
        port = free_port()
        command = [str(BUILD / binary), "--listen", f"127.0.0.1:{port}", "--reactors", str(self.options.reactors)]
        self.servers[name] = start_server(command, port, ready, self.folder / f"{name}.log", env)

    def start_webdis(self) -> None:
        port = free_port()
        config = fill_in(
            "webdis.json.in",
            self.folder / "webdis.json",
            FOLDER=self.folder,
            PORT=port,
            REDIS_HOST=self.redis.host,
            REDIS_PORT=self.redis.port,
            REDIS_AUTH=json.dumps(self.redis.password),
            THREADS=WEBDIS_THREADS,
            POOL=WEBDIS_POOL,
        )
        self.servers["webdis"] = start_server(["webdis", str(config)], port, "/PING", self.folder / "webdis.out")

    def start_nginx(self) -> None:
        port = free_port()
        config = fill_in(
            "nginx.conf.in",
            self.folder / "nginx.conf",
            FOLDER=self.folder,
            CONTENDERS=CONTENDERS,
            WORKERS=NGINX_WORKERS,
            PORT=port,
            REDIS_HOST=self.redis.host,
            REDIS_PORT=self.redis.port,
            REDIS_PASSWORD=self.redis.password or "",
            SCRIPT_SHA=self.script_sha,
            JOURNAL_MAX=UNITS,
            REDIS_RUN=self.redis_run,
        )
        command = ["/usr/sbin/nginx", "-p", str(self.folder), "-c", str(config), "-e", str(self.folder / "nginx.log")]
        self.servers["nginx_lua"] = start_server(command, port, "/ready", self.folder / "nginx.out")

    # -- rounds --

    def ceiling(self, seconds: int) -> Sample:
        load, cpu = self.crowd("ceiling", None, seconds, path="/seckill/1")
        return winners(load, cpu)

    def durable(self, seconds: int) -> Sample:
        return self.everybody_wins(seconds, respond_async=0)

    def respond_async(self, seconds: int) -> Sample:
        return self.everybody_wins(seconds, respond_async=1)

    def everybody_wins(self, seconds: int, respond_async: int) -> Sample:
        voucher = common.create_voucher(self.servers["service"].url, self.token, "bench", UNITS)
        empty_bytes = self.redis_bytes()
        path = f"/seckill/{voucher.id}"
        load, cpu = self.crowd("service", voucher, seconds, path=path, **{"async": respond_async})
        sample = winners(load, cpu)
        buyers = self.count_buyers(voucher, load)
        [[rows, last_order_at]] = self.postgres.rows(
            f"SELECT count(*), extract(epoch FROM max(created_at)) FROM voucher_order WHERE voucher_id = {voucher.id}"
        )
        if int(rows) != buyers:
            raise Failure(f"{buyers} buyers in Redis, {rows} rows in PostgreSQL")
        sample.committed_rps = buyers / (float(last_order_at) - load.started_at)
        sample.server_bytes = resident_bytes(self.servers["service"].process.pid)
        sample.buyer_bytes = self.redis.number("MEMORY", "USAGE", voucher.key("buyers"), "SAMPLES", "0") / buyers
        sample.redis_buyer_bytes = (self.redis_bytes() - empty_bytes) / buyers
        self.forget(voucher)
        return sample

    def sold_out(self, seconds: int) -> Sample:
        url = self.servers["service"].url
        voucher = common.create_voucher(url, self.token, "bench", 1)
        path = f"/seckill/{voucher.id}"
        first, second = buy(url + path, "first"), buy(url + path, "second")
        if first[0] not in (201, 202) or second[0] != 409 or "SOLD_OUT" not in second[1]:
            raise Failure(f"the last unit did not sell out: {first} {second}")
        load, cpu = self.crowd("service", voucher, seconds, path=path)
        if load.not_ok != load.requests:
            raise Failure(f"{load.requests - load.not_ok} requests of {load.requests} were not told SOLD_OUT")
        self.forget(voucher)
        return Sample(load.rate, load.p50_ms, load.p99_ms, load.not_ok + sum(load.broken.values()), cpu)

    def webdis(self, seconds: int) -> Sample:
        words = self.script_call()
        path = "/EVALSHA/" + "/".join(urllib.parse.quote(word, safe="") for word in words) + "/{user}/" + ORDER_ID
        return self.without_service("webdis", seconds, path=path, method="GET")

    def nginx_lua(self, seconds: int) -> Sample:
        return self.without_service("nginx_lua", seconds, path=f"/seckill/{BARE.id}")

    def without_service(self, name: str, seconds: int, **settings: object) -> Sample:
        """Redis alone decides: nobody settles the journal, nobody writes a row."""
        self.open_bare_voucher()
        load, cpu = self.crowd(name, None, seconds, **settings)
        self.close_bare_voucher(name, load.requests - load.not_ok)
        return winners(load, cpu)

    def redis_benchmark(self, seconds: int) -> Sample:
        self.open_bare_voucher()
        number = seconds * 100_000
        command = ["redis-benchmark", "-h", self.redis.host, "-p", str(self.redis.port), "--csv", "-n", str(number)]
        command += ["-a", self.redis.password] if self.redis.password else []
        command += ["-c", str(max(1, self.options.connections // PIPELINE)), "-P", str(PIPELINE), "-r", "2000000000"]
        command += ["EVALSHA", *self.script_call(), "__rand_int__", ORDER_ID]
        before, client_before = cpu_seconds(self.store_pids["redis"]), common.child_cpu_seconds()
        output = common.run(command)
        cpu = {
            "redis": (cpu_seconds(self.store_pids["redis"]) - before) * 1000 / number,
            "client": (common.child_cpu_seconds() - client_before) * 1000 / number,
        }
        figures = list(csv.DictReader(io.StringIO(output)))[-1]
        self.close_bare_voucher("redis-benchmark", number)
        rps, p50_ms, p99_ms = (float(figures[name]) for name in ("rps", "p50_latency_ms", "p99_latency_ms"))
        return Sample(rps, p50_ms, p99_ms, 0, cpu)

    def crowd(
        self, name: str, journalled: Voucher | None, seconds: int, **settings: object
    ) -> tuple[common.Load, dict[str, float]]:
        """Runs wrk against a server, and waits for what it left to settle: that work is the server's as
        well. Gives what wrk saw and the CPU seconds for 1,000 answers."""
        server = self.servers[name]
        pids = self.store_pids | {"server": server.process.pid}
        before = {process: cpu_seconds(pid) for process, pid in pids.items()}
        load = common.run_wrk([server.url], self.options.connections, self.options.wrk_threads, seconds, **settings)
        if journalled and not common.drained(self.redis, journalled, 60):
            raise Failure(f"{name}: the journal of voucher {journalled.id} is not empty after a minute")
        spent = {process: cpu_seconds(pid) - before[process] for process, pid in pids.items()}
        spent["client"] = load.cpu_seconds
        return load, {process: cpu * 1000 / load.requests for process, cpu in spent.items()}

    # -- the books of a round --

    def count_buyers(self, voucher: Voucher, load: common.Load) -> int:
        """The buyers in Redis: those who were told so, and at most the requests wrk left unanswered."""
        buyers, told = self.redis.number("HLEN", voucher.key("buyers")), load.requests - load.not_ok
        unanswered = self.options.connections + sum(load.broken.values())
        if not told <= buyers <= told + unanswered:
            raise Failure(f"service: {told} won of {load.requests} ({load.broken}), {buyers} buyers in Redis")
        return buyers

    def bare_keys(self) -> list[str]:
        return [BARE.key(part) for part in ("voucher", "buyers", "journal")]

    def script_call(self) -> list[str]:
        """EVALSHA's words, up to the user."""
        return [self.script_sha, "3", *self.bare_keys(), str(UNITS), self.redis_run, "new", "0", "0-0"]

    def open_bare_voucher(self) -> None:
        self.redis.call("UNLINK", *self.bare_keys())  # what a broken-off run may have left
        terms = {"stock": UNITS, "begin_ms": 0, "end_ms": 1 << 42, "state": "open", "epoch": 1, "last": "epoch-1"}
        terms["run"] = self.redis_run
        self.redis.call("HSET", BARE.key("voucher"), *(word for term in terms.items() for word in term))

    def close_bare_voucher(self, name: str, told: int) -> None:
        """A few in a thousand may be missing: redis-benchmark draws its users at random, and an error of
        Redis is a 200 to webdis. More than that, and something else was measured."""
        buyers = self.redis.number("HLEN", BARE.key("buyers"))
        if buyers < 0.998 * told:
            raise Failure(f"{name}: {told} won, {buyers} buyers in Redis")
        self.forget(BARE)

    def forget(self, voucher: Voucher) -> None:
        """Removes a round's data, so that the last round starts where the first did."""
        self.postgres.rows(
            f"DELETE FROM voucher_order WHERE voucher_id = {voucher.id};\n"
            f"DELETE FROM seckill_voucher WHERE id = {voucher.id};\n"
            "VACUUM voucher_order;"
        )
        self.redis.call("UNLINK", *(voucher.key(part) for part in ("voucher", "buyers", "journal")))
        self.redis.call("BGREWRITEAOF")
        common.wait_for("the append-only file's rewriting", self.append_only_file_is_calm, 60)

    def append_only_file_is_calm(self) -> bool:
        lines = self.redis.call("INFO", "persistence")
        return {"aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"} <= set(lines)

    def redis_bytes(self) -> int:
        return next(int(line.partition(":")[2]) for line in self.redis.call("INFO", "memory") if "used_memory:" in line)


def winners(load: common.Load, cpu: dict[str, float]) -> Sample:
    refused = load.not_ok + sum(load.broken.values())
    return Sample((load.requests - load.not_ok) / load.seconds, load.p50_ms, load.p99_ms, refused, cpu)


def buy(url: str, user: str) -> tuple[int, str]:
    request = urllib.request.Request(url, method="POST", headers={"X-User-Id": user})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
