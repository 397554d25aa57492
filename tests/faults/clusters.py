"""A Redis Cluster: masters with a replica each. Its commands go to the node that has the key."""

from __future__ import annotations

import signal
import subprocess

from stack import REDIS_PASSWORD, Broken, RedisServer, Stack, free_port, wait_for

SLOTS = 16384
DOWN_MS = 700  # then a node is suspected
KEYLESS = {"PING", "INFO", "TIME", "CONFIG", "SCRIPT", "ACL", "CLUSTER", "FLUSHALL", "DEBUG", "CLIENT", "DBSIZE", "FAILOVER"}


def slot_of(key: str) -> int:
    """As in src/base/hash.c."""
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
    """One process of the cluster."""

    def __init__(self, folder, name: str):
        super().__init__(folder, name)
        self.bus = free_port()

    def run(self, appendfsync: str = "always", *extra: str) -> None:
        own = ["--cluster-enabled", "yes", "--cluster-node-timeout", str(DOWN_MS), "--cluster-port", str(self.bus)]
        own += ["--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0"]
        own += ["--cluster-allow-replica-migration", "no", "--repl-diskless-sync-delay", "0"]
        super().run(appendfsync, *own, *extra)

    def is_master(self) -> bool:
        return "role:master" in self.call("INFO", "replication")


class Cluster:
    """Of `count` masters, each with a replica. Its nodes end with the fault."""

    def __init__(self, stack: Stack, count: int = 3, replicas: int = 1, hidden: int = 0):
        self.stack = stack
        self.nodes = [self._node(n) for n in range(count * (1 + replicas))]
        for one in self.nodes:
            one.run()
        self.tool("--cluster", "create", *[self.at(one) for one in self.nodes], "--cluster-replicas", str(replicas),
                  "--cluster-yes", to=None)
        wait_for("a whole cluster", self.is_whole, 60)
        self.addresses = self.urls(self.nodes[hidden:])
        stack.addresses = self.addresses

    def _node(self, number: int) -> Node:
        self.stack.servers += 1
        one = Node(self.stack.folder, f"node-{self.stack.servers}")
        self.stack.others.append(one)
        return one

    def urls(self, nodes: list[Node]) -> dict[str, str]:
        """The environment of an instance that knows these nodes."""
        hosts = ",".join(self.at(one) for one in nodes[:16])
        return {"SECKILL_REDIS_URL": f"redis+cluster://seckill:{REDIS_PASSWORD}@{hosts}"}

    @staticmethod
    def at(one: RedisServer) -> str:
        return f"127.0.0.1:{one.port}"

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
        return [one for one in self.living() if one.is_master() and self.slots(one)]

    @staticmethod
    def slots(one: RedisServer) -> list[tuple[int, int]]:
        """The node's own, by its own word."""
        mine = next(line for line in one.call("CLUSTER", "NODES").splitlines() if "myself" in line)
        ranges = [word.split("-") for word in mine.split()[8:] if not word.startswith("[")]
        return [(int(words[0]), int(words[-1])) for words in ranges]

    def node_of(self, key: str) -> Node:
        """The master that has the key's slot, by its own word."""
        slot = slot_of(key)
        for one in self.living():
            if one.is_master() and any(first <= slot <= last for first, last in self.slots(one)):
                return one
        raise RuntimeError(f"no node has {key}")

    def replica_of(self, master: Node) -> Node:
        name = master.call("CLUSTER", "MYID")
        for one in self.living():
            if any("myself" in line and line.split()[3] == name for line in one.call("CLUSTER", "NODES").splitlines()):
                return one
        raise RuntimeError(f"{master.name} has no replica")

    def is_whole(self) -> bool:
        """All nodes run and agree, and each replica follows."""
        for one in self.nodes:
            if not one.well() or "cluster_state:ok" not in one.call("CLUSTER", "INFO"):
                return False
            if not one.is_master() and not one.follows():
                return False
        return len(self.masters()) * 2 <= len(self.nodes) and self._agree()

    def _agree(self) -> bool:
        maps = [[(r[0], r[1], r[2][1]) for r in sorted(one.call("CLUSTER", "SLOTS"), key=lambda r: r[0])] for one in self.nodes]
        return all(one == maps[0] for one in maps) and sum(r[1] - r[0] + 1 for r in maps[0]) == SLOTS

    def mend(self) -> None:
        for one in self.nodes:
            one.signal(signal.SIGCONT)
            if not one.alive():
                one.run()
        wait_for("a whole cluster", self.is_whole, 60)

    # ---- as one Redis ----

    def call(self, *words: object, timeout: float = 5.0):
        if str(words[0]).upper() in KEYLESS:
            return [one.call(*words, timeout=timeout) for one in self.masters()][0]
        key = next(str(word) for word in words[1:] if "{" in str(word))
        return self.node_of(key).call(*words, timeout=timeout)

    # ---- what operators and faults do ----

    def replaced(self, master: Node) -> Node:
        """Waits until another node has the slots of this one, which is away."""
        slot = self._first_slot[master]
        found: list[Node] = []

        def another() -> bool:
            found[:] = [one for one in self.living() if one is not master and one.is_master()
                        and any(first <= slot <= last for first, last in self.slots(one))]
            return bool(found)

        wait_for("another master", another, 30)
        return found[0]

    def kill(self, master: Node, how: int = signal.SIGKILL) -> Node:
        """Returns the master that replaced it."""
        self._first_slot = {master: self.slots(master)[0][0]}
        if how == signal.SIGKILL:
            master.end(how)
        else:
            master.signal(how)
        return self.replaced(master)

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
