"""The rights of deploy/redis.acl are exactly those that the service needs. Each one is removed, the service is brought
to use it, and must fail; and whatever is not permitted is denied. loading.py tests the rights that Redis itself needs
to load its file, owner.py those of the owner of PostgreSQL's tables."""

from __future__ import annotations

import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import loading
import owner
from stack import ROOT, Broken, Instance, Stack, redis_url, wait_for

SEEN_S = 10.0  # until a denial is logged, at most: background rounds run once a second, on a machine that may be busy
TIMES = 3  # attempts of the likeliest way: a slow disk may interrupt one, and a full second of the log hide a line
WITHOUT_RIGHTS = {"auth", "hello", "quit", "reset"}  # Redis allows these on each connection
OF_A_CLUSTER = {"+cluster|info", "+cluster|slots"}  # one Redis needs no such right; tests/stores/cluster.py tries them
STRANGE_KEYS = ["other", "seckill", "seckill:", "seckill:{1}:other", "seckill:other", "{1}:voucher", "seckill:lock:{1}"]
ENV = {"SECKILL_SOLD_OUT_MARK_MS": "100", "SECKILL_RETIRE_AFTER_MS": "600000"}


def permissions() -> list[str]:
    """The words of the service's user that grant something."""
    for line in (ROOT / "deploy/redis.acl").read_text().splitlines():
        if line.startswith("user seckill "):
            return [word for word in line.split() if word[0] in "+~"]
    raise Broken("deploy/redis.acl has no user seckill")


class Shop:
    """An instance, and the ways to make it use each right."""

    def __init__(self, stack: Stack):
        self.stack, self.redis, self.sales = stack, stack.redis, 0
        stack.launch(1, ENV, {}, False)
        self.voucher = ""

    @property
    def instance(self) -> Instance:
        return self.stack.instances[0]

    def ask(self, *what, **how):
        return self.instance.ask(*what, timeout=1.5, **how)

    def sale(self, pay_within_s: int = 900) -> None:
        """A new voucher of two units; making it loads it."""
        self.sales += 1
        now = datetime.now(timezone.utc)
        terms = {
            "title": "Rights", "stock": 2, "price_cents": 1, "pay_within_s": pay_within_s,
            "begin_at": (now - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "end_at": (now + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        status, document = self.ask("POST", "/admin/vouchers", body=terms)
        self.voucher = document.get("id", self.voucher) if status == 201 else self.voucher

    def key(self, part: str) -> str:
        return f"seckill:{{{self.voucher}}}:{part}"

    def buy(self, user: str, **headers):
        return self.ask("POST", f"/seckill/{self.voucher}", user, headers=headers)

    # ---- ways to use rights ----

    def purchases(self) -> None:
        """Sold, repeated, sold out, refused from memory, listed."""
        self.sale()
        for user in ("anna", "ben", "anna", "carla", "dora", "emil"):
            self.buy(user)
        time.sleep(0.15)
        for user in ("fritz", "gina", "anna", "hugo"):
            self.buy(user)
        self.ask("GET", "/orders", "anna")

    def returns(self) -> None:
        """Bought with a key, cancelled, and loaded again with both."""
        self.sale()
        status, order = self.buy("anna", **{"Idempotency-Key": "k"})
        self.ask("POST", f"/orders/{order.get('id', '')}/cancel", "anna")
        self.buy("anna", **{"Idempotency-Key": "k"})
        self.rebuild()

    def rebuild(self) -> None:
        self.ask("POST", f"/admin/vouchers/{self.voucher}/reconcile")

    def lock_of_another(self) -> None:
        self.redis.call("SET", f"seckill:lock:rebuild:{{{self.voucher}}}", "strange/100", "PX", "60000")
        self.rebuild()
        self.redis.call("DEL", f"seckill:lock:rebuild:{{{self.voucher}}}")

    def orphan(self) -> None:
        """An entry of a session that does not live."""
        voucher = self.redis.call("HGET", self.key("voucher"), "epoch") or "1"
        self.redis.call("XADD", self.key("journal"), "*", "epoch", voucher, "orders", "", "session", "gone")

    def expiry(self) -> None:
        self.sale(pay_within_s=1)
        self.buy("anna")

    def another_version(self) -> None:
        self.redis.call("SET", "seckill:{shared}:protocol", "0")

    def clock_set_back(self) -> None:
        self.redis.call("SET", "seckill:{shared}:clock", str(int(time.time() * 1000) + 5000))

    def reconnect(self) -> None:
        self.redis.call("CLIENT", "KILL", "USER", "seckill")

    def restart(self) -> None:
        self.instance.end(signal.SIGTERM)
        self.instance.run()

    def ways(self) -> list:
        return [
            self.purchases, self.returns, self.rebuild, self.reconnect, self.lock_of_another, self.orphan, self.restart,
            self.another_version, self.clock_set_back, self.expiry,
        ]

    def well(self) -> None:
        """The service is ready, and sells."""
        self.instance.note_exit()
        if not self.instance.alive():
            self.instance.run()
        wait_for("the instance", self.instance.ready)

        def sells() -> bool:
            self.sale()
            return self.buy("anna")[0] == 201

        wait_for("a sale", sells)


# The first way to try for rights that few ways use; purchases use all others.
BEGIN = {
    "+select": "reconnect", "+info": "reconnect", "+script|load": "reconnect", "+pttl": "lock_of_another",
    "+zcount": "another_version", "+zincrby": "clock_set_back", "+zrem": "restart", "+del": "rebuild",
    "+expire": "returns", "+hincrby": "returns", "~seckill:{*}:repeats": "returns", "+exists": "rebuild",
    "+xinfo|stream": "returns", "~seckill:lock:recover:{*}": "orphan", "~seckill:lock:expire:{*}": "expiry",
    "~seckill:lock:rebuild:{*}": "rebuild", "~seckill:{shared}:instances": "restart",
    "~seckill:sessions": "restart", "+unlink": "rebuild",
}


def denials(stack: Stack) -> list[dict[str, str]]:
    """The denials for the service in Redis's own log."""
    entries = [dict(zip(entry[::2], entry[1::2])) for entry in stack.redis.call("ACL", "LOG", "128")]
    return [entry for entry in entries if entry["username"] == "seckill"]


def is_of(entry: dict[str, str], permission: str) -> bool:
    if permission[0] == "+":
        return entry["reason"] == "command" and entry["object"] == permission[1:]
    head, _, tail = permission[1:].partition("*")
    return entry["reason"] == "key" and entry["object"].startswith(head) and entry["object"].endswith(tail.rpartition("*")[2])


def without(words: list[str], permission: str) -> list[str]:
    return [word for word in words if word != permission]


def give(stack: Stack, words: list[str]) -> None:
    """Sets exactly these rights, at once and also for open connections."""
    stack.redis.call("ACL", "SETUSER", "seckill", "resetkeys", "-@all", *words)


def log_says(text: str) -> str:
    lines = [line for line in text.splitlines() if "Redis denies" in line or "refused the greeting" in line]
    return lines[-1].partition('reason="')[2].rstrip('"') if lines else ""


def seen(read):
    """Waits until the value is non-empty; returns the last one."""
    deadline = time.monotonic() + SEEN_S
    while not (found := read()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def try_without(shop: Shop, words: list[str], permission: str) -> str:
    """'' if the service failed without it, else the problem."""
    stack = shop.stack
    stack.redis.call("ACL", "LOG", "RESET")
    shop.instance.log.write_text("")
    ways = shop.ways()
    first = BEGIN.get(permission, "purchases")
    ways.sort(key=lambda way: way.__name__ != first)
    give(stack, without(words, permission))
    denied, used, told = False, "", ""
    for way in ways[:1] * TIMES + ways[1:]:
        way()
        used = way.__name__
        denied = seen(lambda: any(is_of(entry, permission) for entry in denials(stack)))
        told = seen(lambda: log_says(shop.instance.text())) if denied else ""
        if told:
            break
    give(stack, words)
    shop.well()
    print(f"{permission:<28}{used:<18}{told[:100]}", flush=True)
    if not denied:
        return f"{permission} is not needed"
    return "" if told else f"{permission}: denied, and the service did not say so"


def nothing_else(stack: Stack, words: list[str]) -> list[str]:
    """Over all commands of this Redis, and foreign keys."""
    wrong, tried = [], 0
    permitted = {word[1:] for word in words if word[0] == "+"}

    def dry_run(*command: str) -> bool:
        return stack.redis.call("ACL", "DRYRUN", "seckill", *command) == "OK"

    def visit(info: list) -> None:
        nonlocal tried
        name, arity, subcommands = info[0], info[1], info[9] if len(info) > 9 else []
        for sub in subcommands or []:
            visit(sub)
        if subcommands and arity < 0 and name not in ("command",):
            return  # a container: its subcommands are commands
        tried += 1
        arguments = ["seckill:{shared}:sessions"] * (abs(arity) - len(name.split("|")))
        try:
            may = dry_run(*name.split("|"), *arguments)
        except RuntimeError as error:
            if "Unknown" in str(error) or "wrong number" in str(error):
                return
            raise
        if may and name not in permitted | WITHOUT_RIGHTS:
            wrong.append(f"{name} is permitted")

    for info in stack.redis.call("COMMAND"):
        visit(info)
    for key in STRANGE_KEYS:
        if dry_run("GET", key) or dry_run("DEL", key) or dry_run("EVALSHA", "x", "1", key):
            wrong.append(f"the key {key} is permitted")
    print(f"{tried} commands checked, {len(permitted)} of them permitted", flush=True)
    return wrong


def really_denied() -> list[tuple[str, ...]]:
    return [
        ("FLUSHALL",), ("FLUSHDB",), ("KEYS", "*"), ("CONFIG", "SET", "appendonly", "no"), ("CONFIG", "GET", "*"),
        ("SHUTDOWN", "NOSAVE"), ("EVAL", "return 1", "0"), ("SCRIPT", "FLUSH"), ("ACL", "LIST"),
        ("CLIENT", "KILL", "TYPE", "normal"), ("REPLICAOF", "NO", "ONE"), ("MONITOR",), ("GET", "other"),
        ("XTRIM", "seckill:{1}:journal", "MAXLEN", "0"), ("SUBSCRIBE", "x"), ("SCAN", "0"), ("BGREWRITEAOF",),
    ]


def as_service(stack: Stack) -> list[str]:
    """The same with the service's own login."""
    wrong = []
    password = redis_url(0).partition("seckill:")[2].partition("@")[0]
    for command in really_denied():
        try:
            stack.redis.calls([("AUTH", "seckill", password), command])
            wrong.append(f"{' '.join(command)} was carried out")
        except RuntimeError as error:
            if "NOPERM" not in str(error):
                wrong.append(f"{' '.join(command)}: {error}")
    return wrong


def all_in_use(stack: Stack, words: list[str]) -> list[str]:
    """The control: with all rights nothing is denied, and each command is called."""

    def never_called() -> list[str]:
        stats = stack.redis.call("INFO", "commandstats").split("\r\n")
        called = {line.partition(":")[0][len("cmdstat_") :] for line in stats}
        return [f"{word} was never called" for word in words if word[0] == "+" and word[1:] not in called]

    seen(lambda: not never_called())
    return never_called() + [f"denied with all rights: {json.dumps(entry)}" for entry in denials(stack)]


def tried(shop: Shop, words: list[str], some: list[str]) -> list[str]:
    return [told for permission in some if (told := try_without(shop, words, permission))]


def tried_elsewhere(binary, words: list[str], some: list[str]) -> list[str]:
    """On stores of their own."""
    stack = Stack(binary)
    try:
        stack.prepare("always")
        shop = Shop(stack)
        shop.well()
        return tried(shop, words, some)
    finally:
        stack.land()
        stack.close()


def run(binary) -> list[str]:
    words = permissions()
    stack = Stack(binary)
    try:
        stack.prepare("always")
        shop = Shop(stack)
        shop.well()
        for way in shop.ways():
            way()
            shop.well()
        wrong = nothing_else(stack, words)
        words = [word for word in words if word not in OF_A_CLUSTER]
        wrong += all_in_use(stack, words) + as_service(stack)
        print(f"\n{'without':<28}{'met by':<18}what the service says")
        with ThreadPoolExecutor(1) as pool:  # what takes time is waiting
            others = pool.submit(tried_elsewhere, binary, words, words[1::2])
            wrong += tried(shop, words, words[::2]) + others.result()
        stack.land()
        return wrong + loading.run(stack) + owner.run(binary)
    finally:
        stack.land()
        stack.close()
