"""Redis fails over under three sentinels while buyers rush: the service finds the new master by itself, and the books
balance. Then sentinels are away, or one of them lies."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections import Counter

from stack import REDIS_PASSWORD, Instance, Process, RedisServer, Stack, free_port, wait_for

MASTER, UNITS, BUYERS = "main", 100_000, 8
SENTINEL_PASSWORD = "sentinels-password"
SOLD_AGAIN_S = 5.0  # after the sentinels' decision, on a machine that may be busy; the figure is printed
DOWN_MS = 500


class Sentinel(RedisServer):
    def __init__(self, stack: Stack, number: int, master: RedisServer):
        Process.__init__(self, f"sentinel-{number}", stack.folder / f"sentinel-{number}.log")
        self.port, self.folder = free_port(), stack.folder / f"sentinel-{number}"
        self.folder.mkdir()
        self.file = self.folder / "sentinel.conf"
        self.file.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {self.folder}\nrequirepass {SENTINEL_PASSWORD}\n"
            f"sentinel sentinel-pass {SENTINEL_PASSWORD}\n"
            f"sentinel monitor {MASTER} 127.0.0.1 {master.port} 2\n"
            f"sentinel down-after-milliseconds {MASTER} {DOWN_MS}\nsentinel failover-timeout {MASTER} 5000\n"
        )
        stack.others.append(self)

    def run(self) -> None:
        self.start(["redis-server", str(self.file), "--sentinel"])
        wait_for(self.name, lambda: "+monitor" in self.log.read_text())

    def switched_s(self) -> float:
        """When it decided for another master; 0: not yet."""
        return time.time() if "+switch-master" in self.log.read_text() else 0.0


class Liar:
    """Answers as a sentinel, and names whatever it is told to."""

    def __init__(self, named: int):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.reply = f"*2\r\n$9\r\n127.0.0.1\r\n${len(str(named))}\r\n{named}\r\n".encode()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            link, _ = self.listener.accept()
            threading.Thread(target=self._answer, args=(link,), daemon=True).start()

    def _answer(self, link: socket.socket) -> None:
        try:
            while data := link.recv(4096):
                link.sendall(b"+OK\r\n" * data.count(b"AUTH") + self.reply * data.count(b"GET-MASTER"))
        except OSError:
            pass


def redis_url(sentinels: list[Sentinel | Liar]) -> str:
    hosts = ",".join(f"127.0.0.1:{one.port}" for one in sentinels)
    return f"redis+sentinel://seckill:{REDIS_PASSWORD}@{hosts}/{MASTER}"


def instances(stack: Stack, sentinels: list[Sentinel | Liar], count: int) -> list[Instance]:
    env = {"SECKILL_REDIS_URL": redis_url(sentinels), "SECKILL_SENTINEL_PASSWORD": SENTINEL_PASSWORD}
    made = [Instance(n, stack.folder, stack.binary, stack.store_urls(False) | env) for n in range(count)]
    stack.instances = made
    for one in made:
        one.run()
    return made


def voucher_of(one: Instance) -> str:
    now = time.time()
    at = lambda seconds: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + seconds))
    terms = {"title": "fail-over", "stock": UNITS, "price_cents": 1, "begin_at": at(-3600), "end_at": at(86400)}
    status, document = one.ask("POST", "/admin/vouchers", body=terms)
    if status != 201:
        raise RuntimeError(f"no voucher: {status} {document}")
    return document["id"]


class Rush:
    """Buyers at all instances. It keeps when orders were confirmed, and which."""

    def __init__(self, made: list[Instance], voucher: str):
        self.over, self.answers, self.lock = threading.Event(), [], threading.Lock()
        self.threads = [threading.Thread(target=self._buy, args=(made[n % len(made)], n, voucher)) for n in range(BUYERS)]
        for thread in self.threads:
            thread.start()

    def _buy(self, one: Instance, number: int, voucher: str) -> None:
        turn = 0
        while not self.over.is_set():
            turn += 1
            user = f"b{number}-{turn}"
            status, document = one.ask("POST", f"/seckill/{voucher}", user)
            with self.lock:
                self.answers.append((time.time(), user, status, document))
            time.sleep(0.01)

    def confirmed_after(self, moment: float) -> float:
        with self.lock:
            return min((at for at, _, status, _ in self.answers if status == 201 and at > moment), default=0.0)

    def end(self) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()


def books(stack: Stack, rush: Rush, voucher: str, redis: RedisServer) -> list[str]:
    """Every 201 is a row, every 202 has ended, and both stores agree."""
    rows = dict(stack.postgres.sql(f"select id, status from voucher_order where voucher_id = {voucher}"))
    wrong = [f"a 201 without a row: {d['id']}" for _, _, s, d in rush.answers if s == 201 and d["id"] not in rows]
    open_202 = [d["id"] for _, _, s, d in rush.answers if s == 202]
    wrong += [f"a 202 without an end: {id}" for id in open_202 if id not in rows]
    live = sum(status == "unpaid" for status in rows.values())
    stock = int(redis.call("HGET", f"seckill:{{{voucher}}}:voucher", "stock"))
    buyers = redis.call("HLEN", f"seckill:{{{voucher}}}:buyers")
    if (live, live + stock) != (buyers, UNITS):
        wrong.append(f"{live} live orders, {buyers} buyers and {stock} of {UNITS} units in Redis")
    counts = Counter(status for _, _, status, _ in rush.answers)
    print(f"    {dict(counts)}, {live} live orders, {len(open_202)} confirmed or refused later")
    return wrong[:3]


def failed_over(stack: Stack) -> list[str]:
    old, new = stack.redis, stack.new_redis()
    new.run("always", "--replicaof", "127.0.0.1", str(old.port))
    stack.others.append(new)
    wait_for("a replica", lambda: "master_link_status:up" in new.call("INFO", "replication"))
    sentinels = [Sentinel(stack, n, old) for n in range(3)]
    for one in sentinels:
        one.run()
    known = "slaves=1,sentinels=3"
    wait_for("sentinels that know each other", lambda: all(known in info(one) for one in sentinels))
    made = instances(stack, sentinels, 2)
    for one in made:
        wait_for("ready", one.ready)
    voucher, wrong = voucher_of(made[0]), []
    rush = Rush(made, voucher)
    try:
        wait_for("a sale", lambda: rush.confirmed_after(0) > 0)
        time.sleep(1)
        old.end(signal.SIGKILL)
        killed = time.time()
        while not any(one.switched_s() for one in sentinels):
            time.sleep(0.02)
        decided = time.time()
        wait_for("a sale at the new master", lambda: rush.confirmed_after(decided) > 0)
        again = rush.confirmed_after(decided) - decided
        print(f"    decided {decided - killed:.2f} s after the kill, sold again {again:.2f} s after the decision")
        if again > SOLD_AGAIN_S:
            wrong.append(f"sold again only {again:.1f} s after the decision")
        old.run("always")  # it comes back as a master, until the sentinels find it
        wait_for("the old master is a replica", lambda: "role:slave" in old.call("INFO", "replication"), 30)
        since = time.time()
        wait_for("it still sells", lambda: rush.confirmed_after(since) > 0)
    finally:
        rush.end()
    wait_for("settled", lambda: new.call("XLEN", f"seckill:{{{voucher}}}:journal") == 0)
    wrong += books(stack, rush, voucher, new)
    wrong += sentinels_away(stack, sentinels, made, voucher)
    for one in made:
        one.end(signal.SIGTERM)
    return wrong + sentinels_that_lie(stack, sentinels, old, new)


def info(one: Sentinel) -> str:
    return one.calls([("AUTH", SENTINEL_PASSWORD), ("INFO", "sentinel")])[1]


def sentinels_away(stack: Stack, sentinels: list[Sentinel], made: list[Instance], voucher: str) -> list[str]:
    """Without most sentinels a Redis that works is not left, and an instance that starts finds none."""
    wrong = []
    for one in sentinels[:2]:
        one.end(signal.SIGKILL)
    time.sleep(1.5)
    if made[0].ask("POST", f"/seckill/{voucher}", "without-sentinels")[0] != 201:
        wrong.append("without sentinels it does not sell any more")
    made[1].end(signal.SIGTERM)
    made[1].run()
    wait_for("the reason", lambda: "too few sentinels answer" in made[1].text())
    if made[1].ready():
        wrong.append("ready, with one sentinel of three")
    sentinels[0].run()
    wait_for("ready with two of three", made[1].ready)
    return wrong


def sentinels_that_lie(stack: Stack, sentinels: list[Sentinel], replica: RedisServer, master: RedisServer) -> list[str]:
    """One of three changes nothing; of two no master follows; a majority that names a replica is not believed."""
    liar, another = Liar(replica.port), Liar(replica.port)
    cases = [
        ([sentinels[0], sentinels[2], liar], True, f"port={master.port}"),
        ([sentinels[0], liar], False, "the sentinels disagree"),
        ([sentinels[0], liar, another], False, "it is a replica"),
    ]
    wrong = []
    for asked, ready, why in cases:
        one = instances(stack, asked, 1)[0]
        try:
            wait_for(why, lambda one=one, why=why: why in one.text())
            if ready:
                wait_for("ready", one.ready)
            elif one.ready():
                wrong.append(f"ready, although {why}")
        finally:
            one.end(signal.SIGTERM)
    stack.instances = []
    return wrong


def run(binary) -> list[str]:
    stack = Stack(binary)
    try:
        stack.prepare("always")
        return failed_over(stack)
    finally:
        stack.land()
        stack.close()
