"""A Redis Cluster: masters with a replica each. Its commands go to the node that has the key."""

from __future__ import annotations

import copy
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGCONT, SIGKILL

from machine import Deadline
from proxy import Proxy
from stack import REDIS_PASSWORD, Broken, NotInjectable, RedisServer, Stack, free_port, wait_for

SLOTS = 16384
DOWN_MS = 700  # then a node is suspected
ALONE = "127.0.0.2"
FOUND_S = 10.0  # a slot whose master is away has none until it is replaced
TO_ALL = {"PING", "INFO", "TIME", "CONFIG", "SCRIPT", "ACL", "FLUSHALL", "CLIENT", "BGREWRITEAOF"}  # without a key


def slot_of(key: str) -> int:
    """As in src/base/slot.c."""
    begin = key.find("{")
    end = key.find("}", begin + 1)
    text = key[begin + 1 : end] if begin >= 0 and end > begin + 1 else key
    crc = 0
    for byte in text.encode():
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ (0x1021 if crc & 0x8000 else 0)) & 0xFFFF
    return crc % SLOTS


class Node(RedisServer):
    """One process of a cluster. Its folder moves with the cluster's."""

    def __init__(self, cluster: Cluster, folder: Path, name: str):
        self.cluster, self.bus = cluster, free_port()
        super().__init__(folder, name)

    @property
    def dir(self) -> Path:
        return self.cluster.dir / self.name

    @dir.setter
    def dir(self, _: Path) -> None:
        """It is the cluster's."""

    def run(self, appendfsync: str = "always", *extra: str) -> None:
        own = ["--cluster-enabled", "yes", "--cluster-node-timeout", str(DOWN_MS), "--cluster-port", str(self.bus)]
        own += ["--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0"]
        own += ["--cluster-allow-replica-migration", "no", "--repl-diskless-sync-delay", "0"]
        super().run(appendfsync, *own, *extra)

    def is_master(self) -> bool:
        return "role:master" in self.call("INFO", "replication")

    def slots(self) -> list[tuple[int, int]]:
        """Its own, by its own word."""
        mine = next(line for line in self.call("CLUSTER", "NODES").splitlines() if "myself" in line)
        ranges = [word.split("-") for word in mine.split()[8:] if not word.startswith("[")]
        return [(int(words[0]), int(words[-1])) for words in ranges]

    def has(self, slot: int) -> bool:
        return any(first <= slot <= last for first, last in self.slots())

    def map(self) -> list[tuple[int, int, int]]:
        """All slots and the ports of their masters, by its word."""
        return sorted((first, last, master[1]) for first, last, master, *_ in self.call("CLUSTER", "SLOTS"))

    def writes(self) -> bool:
        return self.well() and "cluster_state:ok" in self.call("CLUSTER", "INFO")


class Proxies:
    """A proxy for each master, with the knobs of one."""

    def __init__(self, each: list[Proxy]):
        object.__setattr__(self, "each", each)

    def __setattr__(self, name: str, value) -> None:
        for one in self.each:
            setattr(one, name, copy.copy(value))

    def __getattr__(self, name: str):
        return getattr(self.each[0], name)

    @property
    def swallow(self) -> Proxies:
        return self

    def __setitem__(self, direction: str, value: bool) -> None:
        for one in self.each:
            one.swallow[direction] = value

    def update(self, **directions: bool) -> None:
        for one in self.each:
            one.swallow.update(directions)

    def reset(self, upstream: int = 0) -> None:
        for one in self.each:
            one.reset(one.upstream)

    def drop_all(self) -> None:
        for one in self.each:
            one.drop_all()

    def close(self) -> None:
        for one in self.each:
            one.close()


class Cluster:
    """Of three masters, with a replica each or without. To the suite it is one Redis: what is done to it is done to all
    nodes, and a command goes to the node that has its key."""

    def __init__(self, stack: Stack, replicas: int = 1, count: int = 3, kind: type[Node] = Node):
        self.stack, self.replicas = stack, replicas
        stack.servers += 1
        self.dir, self.shown, self._slots = stack.folder / f"cluster-{stack.servers}", {}, {}
        self.dir.mkdir()
        self.nodes = [kind(self, stack.folder, f"node-{stack.servers}-{n}") for n in range(count * (1 + replicas))]
        self.proxies = Proxies([Proxy(free_port()) for _ in self.nodes])
        self.settings = ("always",)

    def create(self, *settings: str) -> Cluster:
        self.settings = settings or self.settings
        for one in self.nodes:
            one.run(*self.settings)
        self.tool("--cluster", "create", *[self.at(one) for one in self.nodes], "--cluster-replicas", str(self.replicas),
                  "--cluster-yes", to=None)
        wait_for("a whole cluster", self.is_whole, 60)
        for proxy, one in zip(self.proxies.each, self.nodes):
            proxy.reset(one.port)
        return self

    @staticmethod
    def at(one: RedisServer) -> str:
        return f"127.0.0.1:{one.port}"

    def url(self, proxied: bool = False) -> str:
        """The service's; any nodes are enough."""
        ports = [proxy.port if proxied else one.port for proxy, one in zip(self.proxies.each, self.nodes)]
        return f"redis+cluster://seckill:{REDIS_PASSWORD}@" + ",".join(f"127.0.0.1:{port}" for port in ports)

    def show(self, proxied: bool) -> None:
        """Makes the nodes show clients their proxies' addresses, or their own."""
        ports = {one.port: proxy.port if proxied else one.port for proxy, one in zip(self.proxies.each, self.nodes)}
        for one in self.nodes:
            one.call("CONFIG", "SET", "cluster-announce-port", ports[one.port] if proxied else 0)
        known = lambda: all({port for _, _, port in one.map()} <= set(ports.values()) for one in self.nodes)
        wait_for("the nodes' addresses", known, 30)
        self.proxies.reset()

    def tool(self, *words: str, to: RedisServer | None) -> str:
        """redis-cli."""
        where = [] if to is None else ["-p", str(to.port)]
        done = subprocess.run(["redis-cli", *where, *words], capture_output=True, text=True)
        if done.returncode != 0:
            raise Broken(f"redis-cli {' '.join(words[:2])}: {(done.stdout + done.stderr)[-400:]}")
        return done.stdout

    # ---- what there is ----

    def living(self) -> list[Node]:
        return [one for one in self.nodes if one.well()]

    def masters(self) -> list[Node]:
        return [one for one in self.living() if one.is_master() and one.slots()]

    def node_of(self, key: str) -> Node:
        """The master that has the key's slot, by its own word. Without replicas no slot moves."""
        slot = slot_of(key)
        if not self.replicas and slot in self._slots:
            return self._slots[slot]
        deadline = Deadline(FOUND_S)
        while True:
            for one in self.living():
                if one.is_master() and one.has(slot):
                    self._slots[slot] = one
                    return one
            if deadline.passed():
                raise Broken(f"no node has {key}")
            time.sleep(0.05)

    def replica_of(self, master: Node) -> Node:
        name = master.call("CLUSTER", "MYID")
        for one in self.living():
            if any("myself" in line and line.split()[3] == name for line in one.call("CLUSTER", "NODES").splitlines()):
                return one
        raise RuntimeError(f"{master.name} has no replica")

    def is_whole(self) -> bool:
        """All nodes run and agree, and each replica follows."""
        if not all(one.writes() and (one.is_master() or one.follows()) for one in self.nodes):
            return False
        maps = [one.map() for one in self.nodes]
        return all(one == maps[0] for one in maps) and sum(last - first + 1 for first, last, _ in maps[0]) == SLOTS

    def mend(self) -> None:
        for one in self.nodes:
            one.signal(SIGCONT)
            if not one.alive():
                one.run(*self.settings)
            one.call("CONFIG", "SET", "masteruser", "", "masterauth", "")
        wait_for("a whole cluster", self.is_whole, 60)

    # ---- as one Redis ----

    def call(self, *words: object, timeout: float = 5.0):
        if str(words[0]).upper() in TO_ALL or (str(words[0]).upper() == "EVAL" and int(words[2]) == 0):
            replies = [one.call(*words, timeout=timeout) for one in self.masters()]
            return sum(replies, []) if isinstance(replies[0], list) and words[0] == "EVAL" else replies[0]
        key = next((str(word) for word in words[1:] if "{" in str(word) and "redis.call" not in str(word)), None)
        if key is None:
            raise NotInjectable(f"{words[0]} is of one server")
        return self.node_of(key).call(*words, timeout=timeout)

    def calls(self, commands, timeout: float = 5.0) -> list:
        return [self.call(*words, timeout=timeout) for words in commands]

    def __getattr__(self, name: str):
        if name in ("port", "address", "log"):
            raise NotInjectable(f"a cluster has more than one {name}")
        raise AttributeError(name)

    @property
    def preload(self) -> dict[str, str]:
        return self.nodes[0].preload

    @preload.setter
    def preload(self, env: dict[str, str]) -> None:
        for one in self.nodes:
            one.preload = env

    def run(self, *settings: str) -> None:
        for one in self.nodes:
            one.run(*settings)
        wait_for("a cluster that writes", lambda: all(one.writes() for one in self.nodes), 30)

    def signal(self, number: int) -> None:
        for one in self.nodes:
            one.signal(number)

    def end(self, number: int, seconds: float = 15.0) -> int | None:
        self.signal(number)
        return [one.end(number, seconds) for one in self.nodes][0]

    def alive(self) -> bool:
        return all(one.alive() for one in self.nodes)

    def well(self) -> bool:
        return all(one.well() for one in self.nodes) and all(one.writes() for one in self.nodes)

    answers = well

    def erase(self) -> None:
        for one in self.nodes:
            one.erase()

    def aof(self) -> Path:
        """Of the node with most data: the vouchers' one."""
        return max((one.aof() for one in self.nodes), key=lambda path: path.stat().st_size)

    def close(self) -> None:
        self.end(SIGKILL)
        self.proxies.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    # ---- what operators and faults do ----

    @contextmanager
    def bus(self, alone: Node | None = None) -> Iterator[None]:
        """Meanwhile no node reaches the bus of another one, while clients reach all; or only this one is cut off."""
        proxies = [Proxy(free_port()) for _ in self.nodes]
        try:
            for proxy, one in zip(proxies, self.nodes):
                proxy.reset(one.bus)
            if alone:  # the proxies know its connections by their address
                alone.call("CONFIG", "SET", "cluster-announce-ip", "127.0.0.1", "bind-source-addr", ALONE)
            self.announce([proxy.port for proxy in proxies])
            for proxy, one in zip(proxies, self.nodes):
                proxy.swallow_of = ALONE if alone and one is not alone else ""
                proxy.swallow = {"up": True, "down": True}
            yield
        finally:
            for proxy in proxies:
                proxy.reset(proxy.upstream)
                proxy.drop_all()  # bytes were lost in between
            if alone:
                alone.call("CONFIG", "SET", "cluster-announce-ip", "", "bind-source-addr", "")
            self.announce([one.bus for one in self.nodes])
            for proxy in proxies:
                proxy.close()

    def announce(self, ports: list[int]) -> None:
        """The ports of the nodes' buses. A node that hears of another one connects anew."""
        for one, port in zip(self.nodes, ports):
            one.call("CONFIG", "SET", "cluster-announce-bus-port", port)
        known = lambda: all(f"@{port} " in one.call("CLUSTER", "NODES") for one in self.nodes for port in ports)
        wait_for("the buses' addresses", known, 60)

    def replaced(self, master: Node, slot: int) -> Node:
        """Waits until another node has this slot of a master that is away."""
        found: list[Node] = []

        def another() -> bool:
            found[:] = [one for one in self.living() if one is not master and one.is_master() and one.has(slot)]
            return bool(found)

        wait_for("another master", another, 30)
        return found[0]

    def kill(self, master: Node, how: int = SIGKILL) -> Node:
        """Returns the master that replaced it."""
        slot = master.slots()[0][0]
        if how == SIGKILL:
            master.end(how)
        else:
            master.signal(how)
        return self.replaced(master, slot)

    def reshard(self, source: Node, target: Node, count: int) -> None:
        """Moves slots under load, as an operator does."""
        self.tool("--cluster", "reshard", self.at(source), "--cluster-from", source.call("CLUSTER", "MYID"), "--cluster-to",
                  target.call("CLUSTER", "MYID"), "--cluster-slots", str(count), "--cluster-yes", "--cluster-pipeline", "50", to=None)

    def move(self, key: str, target: Node, between=None) -> None:
        """Moves the key's slot by hand. `between` runs while the slot is being moved."""
        slot, source = slot_of(key), self.node_of(key)
        target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", source.call("CLUSTER", "MYID"))
        source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", target.call("CLUSTER", "MYID"))
        if between is not None:
            between()
        while keys := source.call("CLUSTER", "GETKEYSINSLOT", slot, 100):
            for one in keys:
                source.call("MIGRATE", "127.0.0.1", target.port, one, 0, 5000, timeout=10)
        for one in (target, source):
            one.call("CLUSTER", "SETSLOT", slot, "NODE", target.call("CLUSTER", "MYID"))
