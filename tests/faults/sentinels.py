"""Redis behind sentinels: a master, a replica that follows it, and three sentinels, or more of which some lie."""

from __future__ import annotations

import shutil
import signal
import socket
import threading

from stack import REDIS_PASSWORD, Process, RedisServer, Stack, free_port, wait_for

MASTER = "main"
SENTINEL_PASSWORD = "sentinels-password"
DOWN_MS = 500


class Sentinel(RedisServer):
    def __init__(self, stack: Stack, number: int, port: int, host: str = "127.0.0.1", before: str = ""):
        """It watches the master at that port. `before`: lines of its configuration, with its own port as PORT."""
        Process.__init__(self, f"sentinel-{number}", stack.folder / f"sentinel-{number}.log")
        self.port, self.folder = free_port(), stack.folder / f"sentinel-{number}"
        shutil.rmtree(self.folder, ignore_errors=True)  # of the fault before
        self.log.unlink(missing_ok=True)
        self.folder.mkdir()
        self.file = self.folder / "sentinel.conf"
        self.file.write_text(
            (before.replace("PORT", str(self.port)) or f"port {self.port}\n") + f"bind 127.0.0.1\ndir {self.folder}\nrequirepass {SENTINEL_PASSWORD}\n"
            f"sentinel sentinel-pass {SENTINEL_PASSWORD}\n"
            f"sentinel monitor {MASTER} {host} {port} 2\n"
            f"sentinel down-after-milliseconds {MASTER} {DOWN_MS}\nsentinel failover-timeout {MASTER} 5000\n"
        )
        stack.others.append(self)

    def run(self) -> None:
        before = self.logged("+monitor")
        self.start(["redis-server", str(self.file), "--sentinel"])
        wait_for(self.name, lambda: self.logged("+monitor") > before)

    def switches(self) -> int:
        """How often it has found that another is the master."""
        return self.logged("+switch-master")

    def logged(self, what: str) -> int:
        return self.log.read_text().count(what) if self.log.exists() else 0


class Liar:
    """Answers as a sentinel, with the port that the test sets."""

    def __init__(self, named: int):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.name(named)
        threading.Thread(target=self._serve, daemon=True).start()

    def name(self, port: int) -> None:
        self.reply = f"*2\r\n$9\r\n127.0.0.1\r\n${len(str(port))}\r\n{port}\r\n".encode()

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


def info(one: Sentinel) -> str:
    return one.calls([("AUTH", SENTINEL_PASSWORD), ("INFO", "sentinel")])[1]


def addresses(sentinels: list[Sentinel | Liar]) -> dict[str, str]:
    """The environment of an instance that finds Redis through them."""
    hosts = ",".join(f"127.0.0.1:{one.port}" for one in sentinels)
    url = f"redis+sentinel://seckill:{REDIS_PASSWORD}@{hosts}/{MASTER}"
    return {"SECKILL_REDIS_URL": url, "SECKILL_SENTINEL_PASSWORD": SENTINEL_PASSWORD}


class Watched:
    """A stack's Redis, watched by three sentinels. Instances ask them, and `liars`, which name the replica."""

    def __init__(self, stack: Stack, liars: int = 0):
        self.stack, self.replica = stack, stack.new_replica()
        self.sentinels = [Sentinel(stack, n, stack.redis.port) for n in range(3)]
        for one in self.sentinels:
            one.run()
        known = "slaves=1,sentinels=3"
        wait_for("sentinels that know each other", lambda: all(known in info(one) for one in self.sentinels))
        self.liars = [Liar(self.replica.port) for _ in range(liars)]
        stack.addresses = addresses([*self.sentinels, *self.liars])

    def fail_over(self, how: int = signal.SIGKILL) -> RedisServer:
        """Returns the old master, which got that signal. The replica is the stack's Redis from then on; the next fault
        starts its own."""
        old, before = self.stack.redis, self.switches()
        if how == signal.SIGKILL:
            old.end(how)
        else:
            old.signal(how)
        wait_for("the sentinels' decision", lambda: self.switches() > before)
        self._swap()
        return old

    def _swap(self) -> None:
        stack, old = self.stack, self.stack.redis
        stack.others = [one for one in stack.others if one is not self.replica] + [old]
        stack.redis, stack.redis_settings, self.replica = self.replica, (), old

    def switches(self) -> int:
        return max(one.switches() for one in self.sentinels)

    def run_replica(self) -> None:
        """It has died, or is a master that nobody follows."""
        self.replica.end(signal.SIGKILL)
        self.replica.run_as_replica_of(self.stack.redis)

    def mend(self) -> None:
        """All run; the stack's Redis is the one that the sentinels name."""
        for one in self.sentinels:
            if not one.alive():
                one.run()
        for one in (self.stack.redis, self.replica):
            one.signal(signal.SIGCONT)
            if not one.alive():
                one.run("always")
        wait_for("the sentinels' master", self._agree, 40)

    def _agree(self) -> bool:
        ask = [("AUTH", SENTINEL_PASSWORD), ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)]
        named = {int(one.calls(ask)[1][1]) for one in self.sentinels}
        if named == {self.replica.port}:
            self._swap()
        return named == {self.stack.redis.port} and "role:master" in self.stack.redis.call("INFO", "replication")
