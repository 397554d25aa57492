"""The service on a Redis Cluster: three masters with a replica each, and a rush at a voucher of each master. A master is
killed and replaced, slots are moved under load, the scripts of a node are flushed, the node of the shared keys fails
over, is stopped, goes away and refuses writes, and an instance wakes up with an old slot map. What happens to one node must not be noticed by vouchers of others.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter

import rush
from clusters import Cluster, Node, slot_of
from machine import MACHINE
from rush import Rush, books, voucher_of
from stack import Broken, Instance, Stack, wait_for

SHARED = "seckill:{shared}:sessions"
VOUCHERS = 40
TTL_S = 2.0
AWAY_S = 3 * TTL_S
CALM_S = 0.5
PATIENT = {"SECKILL_LOCK_TTL_MS": str(int(TTL_S * 1000)), "SECKILL_REDIS_TIMEOUT_MS": "1000"}
LATE_S = 0.5  # a machine that is late by this much may lose any link


def key_of(voucher: str) -> str:
    return f"seckill:{{{voucher}}}:voucher"


class Scene:
    """A cluster, two instances, and a rush at one voucher of each master: `shared` is on the node of the shared keys."""

    def __init__(self, stack: Stack):
        self.stack, self.wrong = stack, []
        stack.prepare("always", replicas=1)
        self.cluster: Cluster = stack.cluster
        self.made = [self.instance() for _ in range(2)]
        for one in self.made:
            one.wait_ready()
        self.vouchers = [voucher_of(self.made[0]) for _ in range(VOUCHERS)]
        self.rushes: dict[str, Rush] = {}

    def instance(self) -> Instance:
        stack = self.stack
        one = Instance(len(stack.instances), stack.folder, stack.binary, stack.store_urls(False) | PATIENT)
        stack.instances.append(one)
        one.run()
        return one

    def first_on(self, node: Node) -> str:
        """The voucher with the lowest slot of that node: the first that redis-cli moves."""
        mine = [v for v in self.vouchers if self.cluster.node_of(key_of(v)) is node]
        return min(mine, key=lambda v: slot_of(key_of(v)))

    def start(self) -> None:
        for node in self.cluster.masters():
            voucher = self.first_on(node)
            self.rushes[voucher] = Rush(self.made, voucher)
        wait_for("sales at each node", lambda: all(r.confirmed_after(0) for r in self.rushes.values()))

    def on(self, node: Node) -> str:
        return next(v for v in self.rushes if self.cluster.node_of(key_of(v)) is node)

    def away_from(self, *nodes: Node) -> Node:
        return next(one for one in self.cluster.masters() if one not in nodes)

    def rebuilds(self, voucher: str) -> int:
        return sum(one.text().count(f'msg="voucher rebuilt" voucher={voucher} ') for one in self.made)

    def answers(self, voucher: str, since: float) -> Counter:
        rush_of = self.rushes[voucher]
        with rush_of.lock:
            return Counter(status for at, _, status, _ in rush_of.answers if at > since)

    def sells(self, voucher: str, since: float) -> None:
        wait_for(f"voucher {voucher} sells", lambda: self.rushes[voucher].confirmed_after(since) > 0, 40)

    def unhurt(self, what: str, hurt: set[str], act) -> float:
        """Runs it; the other vouchers are sold meanwhile without a 503, and are not rebuilt. Returns when it began."""
        time.sleep(CALM_S)
        others = [v for v in self.rushes if v not in hurt]
        before, began = {v: self.rebuilds(v) for v in others}, time.time()
        act()
        for voucher in hurt:
            self.sells(voucher, time.time())
        time.sleep(CALM_S)
        lasted, late = time.time() - began, MACHINE.since(began).between_s(began, time.time())
        for voucher in others:
            answers = self.answers(voucher, began)
            if late < LATE_S and (not set(answers) <= {201, 202} or self.rebuilds(voucher) != before[voucher]):
                self.wrong.append(f"{what}: voucher {voucher} of another node noticed it: {dict(answers)},"
                                  f" {self.rebuilds(voucher) - before[voucher]} rebuilds")
        told = {v: dict(self.answers(v, began)) for v in self.rushes}
        print(f"    {what}: {lasted:.1f} s, hurt {sorted(hurt)}, answers {told}, the machine late by {late:.2f} s")
        return began

    def end(self) -> list[str]:
        for one in self.rushes.values():
            one.end()
        for voucher, one in self.rushes.items():
            journal = key_of(voucher).replace(":voucher", ":journal")
            wait_for("settled", lambda journal=journal: self.cluster.call("XLEN", journal) == 0, 40)
            wait_for("open", lambda v=voucher: self.cluster.call("HGET", key_of(v), "state") == "open", 40)
            self.wrong += books(self.stack, one, voucher, self.cluster)
        return self.wrong


# ---- what happens; the rush goes on ----


def master_killed(scene: Scene) -> None:
    cluster = scene.cluster
    master = scene.away_from(cluster.node_of(SHARED))
    voucher = scene.on(master)
    rebuilt = scene.rebuilds(voucher)
    scene.unhurt("a master is killed and replaced", {voucher}, lambda: cluster.kill(master))
    if scene.rebuilds(voucher) == rebuilt:
        scene.wrong.append("its voucher was not rebuilt")
    lost = f'msg="Redis connection dropped" reason="{cluster.at(master)}: '
    if not all(lost in one.text() for one in scene.made):
        scene.wrong.append("the log does not name the node whose connection was lost")
    master.run()
    wait_for("the old master is a replica", cluster.is_whole, 60)


def slots_moved(scene: Scene) -> None:
    cluster = scene.cluster
    source = scene.away_from(cluster.node_of(SHARED))
    target = scene.away_from(cluster.node_of(SHARED), source)
    voucher = scene.on(source)
    rank = sum(min(last, slot_of(key_of(voucher))) - first + 1
               for first, last in source.slots() if first <= slot_of(key_of(voucher)))
    rebuilt = scene.rebuilds(voucher)
    scene.unhurt(f"{rank} slots are moved under load", {voucher}, lambda: cluster.reshard(source, target, rank))
    if cluster.node_of(key_of(voucher)) is not target:
        raise Broken("redis-cli has moved other slots")
    if scene.rebuilds(voucher) == rebuilt:
        scene.wrong.append("the voucher whose slot moved was not rebuilt")


def scripts_flushed(scene: Scene) -> None:
    node = scene.away_from(scene.cluster.node_of(SHARED))
    scene.unhurt("the scripts of a node are flushed", set(), lambda: node.call("SCRIPT", "FLUSH"))


def shared_replaced(scene: Scene) -> None:
    """An operator has its replica replace it, which lets no instance in at first; and it is stopped. Each time the slot
    map changes before a link ends."""
    cluster = scene.cluster
    for what in ("the node of the shared keys fails over", "the node of the shared keys is stopped"):
        node = cluster.node_of(SHARED)
        replica = cluster.replica_of(node)
        hurt = {v for v in scene.rushes if cluster.node_of(key_of(v)) is node}

        def replaced(node=node, replica=replica, stopped="stopped" in what) -> None:
            if stopped:
                node.signal(signal.SIGSTOP)
            else:
                replica.call("ACL", "SETUSER", "seckill", "off")
                replica.call("CLUSTER", "FAILOVER")
            cluster.replaced(node, slot_of(SHARED))
            if not stopped:
                time.sleep(TTL_S)
                replica.call("ACL", "SETUSER", "seckill", "on")

        scene.unhurt(what, hurt, replaced)
        node.signal(signal.SIGCONT)
        wait_for("the old master is a replica", cluster.is_whole, 60)


def shared_away(scene: Scene) -> None:
    """For several TTLs, since its replica is away, too. An instance that starts meanwhile waits for it."""
    cluster = scene.cluster
    node = cluster.node_of(SHARED)
    replica = cluster.replica_of(node)
    hurt = {v for v in scene.rushes if cluster.node_of(key_of(v)) is node}

    def away() -> None:
        began = time.time()
        replica.end(signal.SIGKILL)
        node.end(signal.SIGKILL)
        late = scene.instance()
        time.sleep(AWAY_S)
        if late.ready():
            scene.wrong.append("an instance without a session is ready")
        late_s = MACHINE.since(began).between_s(began, time.time())
        if late_s < LATE_S and not all(one.ready() for one in scene.made):
            scene.wrong.append("the node of the sessions is away, and an instance that has one is not ready")
        node.run()
        replica.run()
        wait_for("ready", late.ready, 40)
        late.end(signal.SIGTERM)

    scene.unhurt("the node of the shared keys is away", hurt, away)
    wait_for("a whole cluster", cluster.is_whole, 60)


def shared_refuses(scene: Scene) -> None:
    """For several TTLs its node has no replica and refuses writes, as the documents recommend."""
    cluster = scene.cluster
    node = cluster.node_of(SHARED)
    replica = cluster.replica_of(node)
    hurt = {v for v in scene.rushes if cluster.node_of(key_of(v)) is node}

    def refuses() -> None:
        began = time.time()
        node.call("CONFIG", "SET", "min-replicas-to-write", "1")
        replica.end(signal.SIGKILL)
        time.sleep(AWAY_S)
        late_s = MACHINE.since(began).between_s(began, time.time())
        if late_s < LATE_S and not all(one.ready() for one in scene.made):
            scene.wrong.append("the node of the sessions refuses writes, and an instance that has one is not ready")
        if not any("NOREPLICAS" in one.text() for one in scene.made):
            raise Broken("the node of the sessions has refused nothing")
        replica.run()
        wait_for("a replica", lambda: "connected_slaves:1" in node.call("INFO", "replication"), 60)

    scene.unhurt("the node of the shared keys refuses writes", hurt, refuses)
    node.call("CONFIG", "SET", "min-replicas-to-write", "0")
    wait_for("a whole cluster", cluster.is_whole, 60)


def old_map(scene: Scene) -> None:
    """It has slept while a slot moved, and sends its next batch to the old node."""
    cluster, sleeper = scene.cluster, scene.made[1]
    source = scene.away_from(cluster.node_of(SHARED))
    target = scene.away_from(cluster.node_of(SHARED), source)
    voucher = next(v for v in scene.vouchers if v not in scene.rushes and cluster.node_of(key_of(v)) is source)
    sleeper.ask("POST", f"/seckill/{voucher}", "before")
    sleeper.signal(signal.SIGSTOP)
    cluster.move(key_of(voucher), target)
    sleeper.signal(signal.SIGCONT)
    said = []
    wait_for("the order of a sleeper", lambda: said.append(sleeper.ask("POST", f"/seckill/{voucher}", "after")) or said[-1][0] in (201, 409))
    rows = scene.stack.postgres.sql(f"select user_id from voucher_order where voucher_id = {voucher} order by 1")
    print(f"    an instance with an old map: {[status for status, _ in said]}")
    if rows != [["after"], ["before"]] or any(status not in (201, 409, 503) for status, _ in said):
        scene.wrong.append(f"an instance with an old map: {said}, {rows}")


# ---- what the service finds before it sells ----


def check(scene: Scene) -> list[str]:
    """`seckill --check` of a sound cluster, and with settings that it must not have, with an operator's login."""
    cluster, wrong = scene.cluster, []

    def found(url: str) -> list[str]:
        env = os.environ | {"SECKILL_DATABASE_URL": scene.stack.postgres.url("seckill"), "SECKILL_REDIS_URL": url}
        done = subprocess.run([str(scene.stack.binary), "--check"], env=env, capture_output=True, text=True)
        return [line for line in done.stdout.splitlines() if " redis" in line]

    url = "redis+cluster://" + ",".join(cluster.at(one) for one in cluster.nodes)
    for login in (url, cluster.url()):
        sound = found(login)
        masters = sum("redis reachable: 127.0.0.1:" in line for line in sound)
        if any(line.startswith("fail") for line in sound) or masters != 3:
            wrong.append(f"--check of a sound cluster: {sound}")
    node = cluster.masters()[1]
    for what in ("cluster-require-full-coverage", "cluster-allow-reads-when-down"):
        node.call("CONFIG", "SET", what, "yes")
        if sum(line.startswith("fail") and what in line for line in found(url)) != 1:
            wrong.append(f"--check does not find {what} yes")
        node.call("CONFIG", "SET", what, "no")
    if not any(line.startswith("fail redis cluster: on") for line in found(f"redis://{cluster.at(node)}")):
        wrong.append("--check takes a node for a whole Redis")
    return wrong


def rights(scene: Scene) -> list[str]:
    """Both commands of the cluster are needed, and the log says so."""
    wrong = []
    for command in ("cluster|info", "cluster|slots"):
        for node in scene.cluster.nodes:
            node.call("ACL", "SETUSER", "seckill", f"-{command}")
        late = scene.instance()
        wait_for("a denial", lambda late=late: "Redis denies what the service needs" in late.text())
        if late.ready():
            wrong.append(f"ready without {command}")
        for node in scene.cluster.nodes:
            node.call("ACL", "SETUSER", "seckill", f"+{command}")
        wait_for("ready", late.ready)
        late.end(signal.SIGTERM)
    return wrong


# ---- the control ----


def unnoticed(scene: Scene, forged: bool) -> list[str]:
    """A slot moves and a buyer is lost on the way. `forged`: the voucher looks as if its new node had opened it, so that
    nothing notices it, and the books must."""
    cluster, one = scene.cluster, scene.made[0]
    voucher = voucher_of(one)
    source = cluster.node_of(key_of(voucher))
    target = scene.away_from(source)
    buyers = Rush([one], voucher)
    wait_for("some sales", lambda: len([1 for a in buyers.answers if a[2] == 201]) > 20)
    buyers.end()
    wait_for("settled", lambda: cluster.call("XLEN", f"seckill:{{{voucher}}}:journal") == 0)
    for each in scene.made:
        each.end(signal.SIGTERM)
    cluster.move(key_of(voucher), target)
    lost = next(user for _, user, status, _ in buyers.answers if status == 201)
    target.call("HDEL", f"seckill:{{{voucher}}}:buyers", lost)
    target.call("HINCRBY", key_of(voucher), "stock", 1)
    if forged:
        run = target.call("INFO", "server").split("run_id:")[1][:40]
        second = target.call("INFO", "replication").split("master_replid2:")[1][:16]
        protocol = target.call("HGET", key_of(voucher), "run").split("-")[0]
        target.call("HSET", key_of(voucher), "run", f"{protocol}-{run}" + f"-{second}" * (int(second, 16) != 0))
        return books(scene.stack, buyers, voucher, cluster)
    for each in scene.made:
        each.run()
        each.wait_ready()
    wait_for("rebuilt", lambda: scene.rebuilds(voucher) > 1, 40)
    return books(scene.stack, buyers, voucher, cluster)


def run(binary) -> list[str]:
    stack = Stack(binary)
    rush.BUYERS = 3
    try:
        scene = Scene(stack)
        scene.wrong += check(scene) + rights(scene)
        scene.start()
        for happens in (master_killed, slots_moved, scripts_flushed, shared_replaced, shared_away, shared_refuses, old_map):
            happens(scene)
        wrong = scene.end()
        wrong += unnoticed(scene, False)
        if not unnoticed(scene, True):
            wrong.append("the control: a loss that nothing noticed is in order by the books")
        return wrong
    finally:
        rush.BUYERS = 8
        stack.land()
        stack.close()
