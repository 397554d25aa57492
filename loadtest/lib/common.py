"""Shared by the oversell check and the benchmark: the stack they use, and wrk.

Both stores are read with their own command-line clients. So the service's own code takes no part in judging it, and
Python needs no extra packages.
"""

from __future__ import annotations

import copy
import http.client
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import defaultdict
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Iterable, Iterator

ROOT = Path(__file__).resolve().parent.parent.parent
LOADTEST = ROOT / "loadtest"
WRK_SCRIPT = LOADTEST / "oversell.lua"
RECONCILE_S, CLOSE_S = 120, 5
QUIET, PAUSE_S = 3, 0.1  # looks in a row that find nothing new; between two
WRK_STOP_S = 20  # wrk ends within its own time-out of 10 s
PSQL = ["psql", "-XAtq", "-F", "\t", "-v", "ON_ERROR_STOP=1"]


class Failure(Exception):
    """The run cannot continue; reported in one line, without a traceback."""


def environment() -> dict[str, str]:
    """The process environment, over the settings that `./dev up` wrote to .dev/env."""
    settings: dict[str, str] = {}
    file = ROOT / ".dev" / "env"
    if file.exists():
        for word in shlex.split(file.read_text(), comments=True):
            name, _, value = word.partition("=")
            settings[name] = value
    return settings | dict(os.environ)


def run(command: list[str], stdin: str = "", env: dict[str, str] | None = None) -> str:
    """Runs a client to its end and returns what it printed."""
    try:
        done = subprocess.run(command, input=stdin, env=os.environ | (env or {}), text=True, capture_output=True)
    except FileNotFoundError:
        raise Failure(f"{command[0]} is not installed") from None
    if done.returncode != 0:
        raise Failure(f"{command[0]}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def hosts_of(parts: urllib.parse.SplitResult, port: int) -> list[tuple[str, str]]:
    """Hosts and ports of a URL, which may name several."""
    hosts = parts.netloc.rpartition("@")[2].split(",")
    return [(host, number or str(port)) for host, _, number in (one.partition(":") for one in hosts) if host]


class Postgres:
    """psql with a libpq URI, passed in parts through the environment: other users of the machine must not see a
    password."""

    def __init__(self, url: str):
        parts = urllib.parse.urlsplit(url)
        query = dict(urllib.parse.parse_qsl(parts.query))
        hosts = hosts_of(parts, 5432)
        known = {
            "PGHOST": ",".join(host for host, _ in hosts) or query.get("host"),
            "PGPORT": ",".join(port for _, port in hosts) or query.get("port"),
            "PGUSER": parts.username or query.get("user"),
            "PGPASSWORD": parts.password or query.get("password"),
            "PGDATABASE": parts.path.lstrip("/") or query.get("dbname"),
            "PGTARGETSESSIONATTRS": query.get("target_session_attrs"),
            "PGSSLMODE": query.get("sslmode"),
            "PGSSLROOTCERT": query.get("sslrootcert"),
        }
        self.env = {name: urllib.parse.unquote(str(value)) for name, value in known.items() if value}

    def rows(self, script: str) -> list[list[str]]:
        """Runs the script in one session and returns the rows of all its queries."""
        return [line.split("\t") for line in run(PSQL, script, self.env).splitlines()]


class Redis:
    """redis-cli on a URL that the service would take: redis or rediss, also with +sentinel or +cluster."""

    def __init__(self, url: str):
        parts = urllib.parse.urlsplit(url)
        kind, _, several = parts.scheme.partition("+")
        watched, self.cluster = several == "sentinel", ["-c"] if several == "cluster" else []
        hosts = hosts_of(parts, 26379 if watched else 6379) or [("127.0.0.1", "6379")]
        self.sentinels, self.master = (hosts, parts.path.strip("/")) if watched else ([], "")
        (self.host, self.port), self.db = hosts[0], "" if watched else parts.path.lstrip("/")
        self.user = urllib.parse.unquote(parts.username or "")
        self.password = urllib.parse.unquote(parts.password) if parts.password else None
        self.env = {"REDISCLI_AUTH": self.password} if self.password else {}
        self.tls = ["--tls", "--cacert", environment()["SECKILL_REDIS_CA"]] if kind == "rediss" else []

    @property
    def url(self) -> str:
        login = f"{self.user}:{urllib.parse.quote(self.password, safe='')}@" if self.password else ""
        return f"redis://{login}{self.host}:{self.port}/{self.db or 0}"

    def database(self, number: int) -> Redis:
        """Another database of the same server."""
        other = copy.copy(self)
        other.db = str(number)
        return other

    def call(self, *words: object, stdin: str = "") -> list[str]:
        """Runs one command; returns the reply's elements, or the lines of a text. Standard input is its last word."""
        if self.sentinels:
            self.host, self.port = self.find_master()
        command = ["redis-cli", "-e", *self.cluster, *self.tls, "-h", self.host, "-p", str(self.port), "-n", self.db or "0"]
        command += ["--user", self.user] if self.user else []
        command += ["-x"] if stdin and words else []
        return run(command + [str(word) for word in words], stdin, self.env).splitlines()

    def find_master(self) -> list[str]:
        """As the first sentinel that answers names it."""
        env = {"REDISCLI_AUTH": environment()["SECKILL_SENTINEL_PASSWORD"]}
        for host, port in self.sentinels:
            command = ["redis-cli", "-e", *self.tls, "-h", host, "-p", port]
            try:
                return run(command + ["sentinel", "get-master-addr-by-name", self.master], env=env).splitlines()
            except Failure as failure:
                why = failure
        raise why

    def each(self, commands: Iterable[str]) -> list[str]:
        """Runs many commands over one connection; returns the elements of all replies."""
        lines = "\n".join(commands)
        return self.call(stdin=lines) if lines else []

    def number(self, *words: object) -> int:
        return int(self.call(*words)[0] or 0)

    def pairs(self, key: str) -> dict[str, str]:
        reply = self.call("HGETALL", key)
        return dict(zip(reply[::2], reply[1::2]))


@dataclass(frozen=True)
class Voucher:
    id: str
    units: int

    def key(self, part: str) -> str:
        return f"seckill:{{{self.id}}}:{part}"


def voucher_terms(title: str, units: int) -> dict[str, object]:
    """On sale from now until tomorrow."""
    now = datetime.now(timezone.utc)
    return {
        "title": title,
        "stock": units,
        "price_cents": 100,
        "begin_at": (now - timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "end_at": (now + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def admin_headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


def create_voucher(url: str, token: str, title: str, units: int, **terms: object) -> Voucher:
    """Creates a voucher on sale, through the admin API."""
    body = json.dumps(voucher_terms(title, units) | terms).encode()
    request = urllib.request.Request(url + "/admin/vouchers", body, admin_headers(token))
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            voucher = json.load(answer)
    except urllib.error.HTTPError as error:
        raise Failure(f"{url}/admin/vouchers answered {error.code}: {error.read().decode()}") from error
    except OSError as error:
        raise Failure(f"{url}: {error}") from error
    if voucher["state"] != "open":
        raise Failure(f"{url}: voucher {voucher['id']} is {voucher['state']}")
    return Voucher(voucher["id"], units)


def close_voucher(urls: list[str], token: str, voucher: Voucher) -> list[str]:
    """Ends its sale, so that shops no longer list it. Returns why it could not, if so."""
    said = ""

    def closed() -> bool:
        nonlocal said
        for url in urls:
            request = urllib.request.Request(f"{url}/admin/vouchers/{voucher.id}/close", b"", admin_headers(token))
            try:
                with urllib.request.urlopen(request, timeout=CLOSE_S):
                    return True
            except (OSError, http.client.HTTPException) as error:
                said = f"voucher {voucher.id} stays on sale: {error}"
        return False

    try:
        wait_for("close", closed, CLOSE_S)
    except Failure:
        return [said]
    return []


def reconcile(url: str, token: str, voucher: Voucher) -> None:
    """Loads the voucher into Redis again. It is open when this returns."""
    request = urllib.request.Request(
        f"{url}/admin/vouchers/{voucher.id}/reconcile", b"", {"Authorization": f"Bearer {token}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=RECONCILE_S) as answer:
            answer.read()
    except OSError as error:
        raise Failure(f"{url}: reconciling voucher {voucher.id}: {error}") from error


@dataclass
class Load:
    """What wrk measured. `answers` counts orders and refusals by name, `others` every other status."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    not_ok: int
    asked: int
    broken: dict[str, int]
    answers: dict[str, int]
    others: dict[str, int]
    started_at: float = 0.0
    cpu_seconds: float = 0.0
    ids: list[tuple[str, str]] = field(default_factory=list)  # (status, order id) of 201 and 202
    placed_at: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # ids of 201s by address

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


class Wrk:
    """The running crowd of oversell.lua; the settings are its LOAD_ variables."""

    def __init__(self, urls: list[str], connections: int, threads: int, seconds: int, **settings: object):
        variables = {f"LOAD_{name.upper()}": str(value) for name, value in settings.items()}
        variables |= {"LOAD_URLS": " ".join(urls), "LOAD_THREADS": str(threads)}
        command = ["wrk", f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s"]
        command += ["-s", str(WRK_SCRIPT), urls[0]]
        self.seconds, self.started_at, self.cpu_before = seconds, time.time(), child_cpu_seconds()
        try:
            self.process = subprocess.Popen(
                command, env=os.environ | variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        except FileNotFoundError:
            raise Failure("wrk is not installed") from None

    def stop(self) -> Load:
        """Stops it early."""
        self.process.send_signal(signal.SIGINT)
        self.seconds = 0
        return self.finish()

    def finish(self) -> Load:
        """Waits for its end and returns its result."""
        try:
            output, _ = self.process.communicate(timeout=self.seconds + WRK_STOP_S)
        except subprocess.TimeoutExpired:
            raise Failure("wrk does not end") from None
        finally:
            self.kill()
        for line in output.splitlines():
            if line.startswith("load "):
                load = Load(**json.loads(line[5:]), started_at=self.started_at)
                load.cpu_seconds = child_cpu_seconds() - self.cpu_before
                return load
        raise Failure(f"wrk: {output}")

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def run_wrk(urls: list[str], connections: int, threads: int, seconds: int, **settings: object) -> Load:
    """Runs a crowd from start to end."""
    return Wrk(urls, connections, threads, seconds, **settings).finish()


def child_cpu_seconds() -> float:
    """CPU time of the children that this process has waited for."""
    times = os.times()
    return times.children_user + times.children_system


def wait_for(what: str, condition, seconds: float, pause: float = 0.1) -> None:
    """Repeats the check until it is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"{what}: not within {seconds:.0f} s")
        time.sleep(pause)


@contextmanager
def child_that_says(
    command: list[str], word: str, seconds: float, script: str = "", env: dict[str, str] | None = None
) -> Iterator[subprocess.Popen]:
    """A process that has printed the word; it is terminated at the end. Its standard input stays open meanwhile."""
    child = subprocess.Popen(
        command,
        env=os.environ | (env or {}),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    overdue = threading.Timer(seconds, child.kill)
    try:
        overdue.start()
        child.stdin.write(script)
        child.stdin.flush()
        heard = ""
        while not heard.endswith(f"{word}\n"):
            line = child.stdout.readline()
            if not line:
                raise Failure(f"{' '.join(command)} did not say {word}: {heard}")
            heard += line
        overdue.cancel()
        yield child
    finally:
        overdue.cancel()
        child.terminate()
        child.communicate()


def module_that_says(
    module: str, words: list[str], word: str, seconds: float, script: str = ""
) -> AbstractContextManager[subprocess.Popen]:
    """The same for a module of these folders, run as a program."""
    command = [sys.executable, "-m", module, *words]
    return child_that_says(command, word, seconds, script, {"PYTHONPATH": str(LOADTEST)})


# On the node that has the voucher. `run` names the process under which it was opened: in another one it is loaded again.
AT_REST = """local voucher = redis.call('HMGET', KEYS[1], 'state', 'run', 'last')
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local open = voucher[1] and voucher[1] ~= 'loading' and string.find(voucher[2] or '', run, 1, true)
return {open and redis.call('XLEN', KEYS[2]) == 0 and 1 or 0, voucher[3] or ''}"""


def drained(redis: Redis, voucher: Voucher, deadline: float) -> None:
    """Waits until the voucher is open in Redis, and its journal is empty and stays empty: requests that wrk left behind
    may still be on their way into it. Redis may be away or loading meanwhile. At the deadline, by time.monotonic(), the
    caller finds what there is."""
    newest, quiet = "", 0
    while quiet < QUIET and time.monotonic() < deadline:
        try:
            at_rest, last = redis.call("EVAL", AT_REST, 2, voucher.key("voucher"), voucher.key("journal"))
            quiet = quiet + 1 if at_rest == "1" and last == newest else 0
            newest = last
        except Failure:
            quiet = 0
        time.sleep(PAUSE_S)
