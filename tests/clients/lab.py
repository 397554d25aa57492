"""What the scenarios are made of: the service and its stores as ./dev clients has started them, and a client behind a
driver (driver.mjs, Driver.java), which takes a call a line and prints what came of it."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Callable, Iterator

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WEB = ROOT / "clients/web"
JAVA = ROOT / "clients/java"
SPRING = ROOT / "clients/spring/SeckillController.java"
TSC = HERE / "node_modules/typescript/bin/tsc"
LIMIT_S = 60
TERMS = {"title": "Tea set", "stock": 5, "price_cents": 990}


def settings() -> dict[str, str]:
    found = dict(os.environ)
    file = ROOT / ".dev/env"
    if file.exists():
        found = dict(re.findall(r"^(\w+)='?(.*?)'?$", file.read_text(), re.M)) | found
    if "SECKILL_URL" not in found:
        sys.exit("clients: SECKILL_URL is not set: ./dev clients starts what the tests need")
    return found


SETTINGS = settings()
URL = SETTINGS["SECKILL_URL"]
TOKEN = SETTINGS["SECKILL_ADMIN_TOKEN"]
ADMIN = {"Authorization": f"Bearer {TOKEN}"}


def moment(seconds: float) -> str:
    return (datetime.now(timezone.utc) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def until(what: str, condition: Callable[[], object], within_s: float = 30) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {within_s} s"
        time.sleep(0.02)


# ---- the service, without a client and without a proxy ----


def ask(method: str, path: str, headers: dict[str, str], body: object = None) -> dict:
    data = None if body is None else json.dumps(body).encode()
    fields = headers | ({"Content-Type": "application/json"} if data else {})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(URL + path, data, fields, method=method), timeout=30) as got:
        return json.load(got)


def voucher(**terms: object) -> str:
    made = new_voucher(**terms)
    until_open(made)
    return made


def new_voucher(**terms: object) -> str:
    window = {"begin_at": moment(-60), "end_at": moment(3600)}
    return ask("POST", "/admin/vouchers", ADMIN, TERMS | window | terms)["id"]


def until_open(voucher_id: str) -> None:
    path = f"/admin/vouchers/{voucher_id}"
    until("the voucher in Redis", lambda: ask("GET", path, ADMIN)["redis"]["state"] == "open")


def first_event(voucher_id: str) -> dict:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
        f"{URL}/vouchers/{voucher_id}/events", timeout=30
    ) as stream:
        return next(json.loads(line[5:]) for line in stream if line.startswith(b"data:"))


def operate(voucher_id: str, what: str) -> None:
    ask("POST", f"/admin/vouchers/{voucher_id}/{what}", ADMIN)


def orders(voucher_id: str) -> list[dict]:
    return ask("GET", f"/admin/orders?voucher={voucher_id}", ADMIN)["orders"]


def payments(voucher_id: str) -> list[dict]:
    return ask("GET", f"/admin/payments?voucher={voucher_id}", ADMIN)["payments"]


def titled(title: str) -> list[dict]:
    return [one for one in ask("GET", "/admin/vouchers", ADMIN)["vouchers"] if one["title"] == title]


def buy(voucher_id: str, user: str) -> str:
    return ask("POST", f"/seckill/{voucher_id}", {"X-User-Id": user})["id"]


@contextmanager
def held(voucher_id: str) -> Iterator[None]:
    """While PostgreSQL cannot commit orders of the voucher, like behind a slow transaction."""
    command = ["psql", "-XAtq", SETTINGS["DATABASE_URL"]]
    psql = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    psql.stdin.write(f"begin; select 'held' from voucher_stock where voucher_id = {int(voucher_id)} for update;\n")
    psql.stdin.flush()
    assert psql.stdout.readline() == "held\n"
    try:
        yield
    finally:
        psql.stdin.close()  # which rolls back
        psql.wait()


# ---- clients ----


class Call:
    def __init__(self) -> None:
        self.events: list[dict] = []
        self.troubles: list[dict] = []
        self.answer: dict | None = None
        self.done = threading.Event()

    def result(self, within_s: float = LIMIT_S) -> dict:
        assert self.done.wait(within_s), f"the client has no result after {within_s} s"
        return self.answer


class Client:
    """A driver's process; any number of calls at a time."""

    def __init__(self, name: str, source: Path, command: list[str]):
        self.name, self.source = name, source
        self.numbers = itertools.count(1)
        self.calls: dict[int, Call] = {}
        self.lock = threading.Lock()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        for line in self.process.stdout:
            told = json.loads(line)
            call = self.calls[told.pop("n")]
            if "event" in told:
                call.events.append(told["event"])
            elif "trouble" in told:
                call.troubles.append(told["trouble"])
            else:
                call.answer = told
                call.done.set()

    def begin(self, what: str, url: str, user: str | None = "alice", **details: object) -> Call:
        number, call = next(self.numbers), Call()
        self.calls[number] = call
        headers = {"X-User-Id": user} if user else ADMIN
        line = json.dumps({"n": number, "call": what, "url": url, "headers": headers, **details})
        with self.lock:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        return call

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def web_client(folder: Path, source: Path = WEB) -> Client:
    return Client("web", source, ["node", str(HERE / "driver.mjs"), str(source)])


def java_client(folder: Path, source: Path = JAVA) -> Client:
    compile_java(folder, source / "seckill/SeckillClient.java", HERE / "Driver.java")
    return Client("java", source, ["java", "-XX:TieredStopAtLevel=1", "-cp", str(folder), "seckill.Driver"])


def compile_java(folder: Path, *files: Path, jars: tuple[str, ...] = ()) -> None:
    path = ["-cp", ":".join(f"/usr/share/java/{jar}.jar" for jar in jars)] if jars else []
    lint = "-Xlint:all,-processing,-classfile"  # annotations of jars have no processor, and lack classes of others
    command = ["javac", lint, "-Werror", "--release", "17", "-d", str(folder), *path, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def compile_ts(folder: Path, source: Path, files: dict[str, str]) -> None:
    (folder / "package.json").write_text('{"type": "module"}')
    modules = folder / "node_modules"
    modules.mkdir()
    (modules / "seckill-client").symlink_to(source)
    (modules / "@types").symlink_to(HERE / "node_modules/@types")
    for name, text in files.items():
        (folder / name).write_text(text)
    options = ["--strict", "--target", "es2022", "--module", "nodenext", "--types", "node"]
    done = subprocess.run(["node", str(TSC), *options, *files], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def compile_spring(folder: Path, source: Path = SPRING) -> None:
    """Against the Spring of Debian, whose annotations are those of later ones."""
    jars = ("spring3-web", "spring3-core", "spring3-beans", "spring3-context")
    compile_java(folder, JAVA / "seckill/SeckillClient.java", source, jars=jars)


CLIENTS = {"web": (WEB, web_client), "java": (JAVA, java_client)}


def broken_client(name: str, folder: Path, file: str, old: str, new: str) -> Client:
    source, make = CLIENTS[name]
    copy = folder / "source"
    shutil.copytree(source, copy)
    text = (copy / file).read_text()
    assert text.count(old) == 1, f"{file} has {text.count(old)} times {old!r}"
    (copy / file).write_text(text.replace(old, new))
    return make(folder, copy)
