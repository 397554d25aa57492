"""A Redis Cluster: a master is replaced, slots move, a node loses its scripts, and the node of the sessions or the
majority goes away: 64. The crowd buys vouchers of all nodes."""

from __future__ import annotations

import signal
import time

from clusters import Node
from driver import Run
from fault import Fault
from rows_tools import is_open, key, sells, within
from stack import Broken, wait_for

SHARED = "seckill:{shared}:sessions"
VOUCHERS = 6  # so that each node has some
LAGS_S = 0.4
AWAY_S = 3.0  # longer than a TTL
SOLD_S = 6.0
NOTICED_S = 2.5  # the map is read once a second


def node_of(run: Run, voucher: str) -> Node:
    return run.redis.node_of(key(voucher, "voucher"))


def on(run: Run, node: Node) -> list[str]:
    return [voucher for voucher in run.vouchers if node_of(run, voucher) is node]


def another(run: Run, *nodes: Node) -> Node:
    """A master with vouchers of the crowd, and without the sessions if that is possible."""
    masters = [one for one in run.redis.masters() if one not in nodes and on(run, one)]
    if not masters:
        raise Broken("all vouchers are on one node")
    return min(masters, key=lambda one: one is run.redis.node_of(SHARED))


def mended(run: Run, master: Node) -> None:
    """The old master comes back, as a replica."""
    master.run(*run.redis.settings)
    wait_for("a whole cluster", run.redis.is_whole, 60)


def master_killed(run: Run) -> None:
    master = another(run)
    vouchers = on(run, master)
    run.redis.kill(master)
    for voucher in vouchers:
        sells(run, voucher, SOLD_S, "the new master")
    run.healed()
    mended(run, master)


def cut_off(replica: Node, master: Node) -> None:
    """From now on it misses the master's writes."""
    replica.call("CONFIG", "SET", "masteruser", "nobody", "masterauth", "wrong")
    master.call("CLIENT", "KILL", "TYPE", "replica")
    time.sleep(LAGS_S)
    if replica.follows():
        raise Broken("the replica follows all the same")


def master_killed_before_a_laggard(run: Run) -> None:
    """Its replica has missed the last writes."""
    master = another(run)
    vouchers, replica = on(run, master), run.redis.replica_of(master)
    cut_off(replica, master)
    run.redis.kill(master)
    for voucher in vouchers:
        sells(run, voucher, SOLD_S, "the new master")
    run.healed()
    for one in run.redis.living():
        one.call("CONFIG", "SET", "masteruser", "", "masterauth", "")
    mended(run, master)


def taken_over_and_back(run: Run) -> None:
    """A master is replaced by a replica without its last writes, and takes its place again before any instance has
    noticed: the same process, with older data. The epoch of the cluster shows it."""
    master = another(run)
    voucher, replica = on(run, master)[0], run.redis.replica_of(master)
    sells(run, voucher, SOLD_S, "the master")
    cut_off(replica, master)
    for n in range(3):
        run.buy(f"lost{n}", 0, voucher=voucher)
    epoch = lambda: run.postgres.sql(f"select epoch from voucher_stock where voucher_id = {voucher}")
    before = epoch()
    replica.call("CONFIG", "SET", "repl-diskless-sync-delay", 0)
    replica.call("CLUSTER", "FAILOVER", "TAKEOVER")
    wait_for("a replica", lambda: not master.is_master() and master.follows(), pause=0.005)
    master.call("CLUSTER", "FAILOVER", "TAKEOVER")
    within(run, "rebuilt", lambda: epoch() != before, NOTICED_S)
    run.healed()
    replica.call("CONFIG", "SET", "masteruser", "", "masterauth", "", "repl-diskless-sync-delay", 5)
    wait_for("a whole cluster", run.redis.is_whole, 60)


def slots_moved(run: Run) -> None:
    """There and back again, voucher after voucher."""
    source = another(run)
    target = another(run, source)
    for voucher in on(run, source)[:2]:
        for one in (target, source):
            run.redis.move(key(voucher, "voucher"), one, between=lambda: time.sleep(0.2))
            sells(run, voucher, SOLD_S, f"after a move to {one.name}")


def scripts_flushed(run: Run) -> None:
    node = another(run)
    for _ in range(20):
        node.call("SCRIPT", "FLUSH")
        time.sleep(0.05)


def sessions_away(run: Run) -> None:
    """Nobody may be judged there, nor just after it is back; and all others sell on."""
    node = run.redis.node_of(SHARED)
    replica = run.redis.replica_of(node)
    others = [voucher for voucher in run.vouchers if node_of(run, voucher) is not node]
    replica.end(signal.SIGKILL)
    node.end(signal.SIGKILL)
    time.sleep(AWAY_S)
    bought = [run.buy(f"away{n}", n % 2, voucher=others[n % len(others)]).status for n in range(20)]
    if not {201, 202} & set(bought):
        run.seen_meanwhile.append(f"nobody bought at other nodes while that of the sessions was away: {bought}")
    for one in (node, replica):
        one.run(*run.redis.settings)
    wait_for("a whole cluster", run.redis.is_whole, 60)


def sessions_away_and_one_killed(run: Run) -> None:
    """What it leaves is settled once that node is back, a TTL later."""
    node = run.redis.node_of(SHARED)
    first = run.first
    first.expected_exits.add(-signal.SIGKILL)
    node.signal(signal.SIGSTOP)
    time.sleep(0.3)
    first.end(signal.SIGKILL)
    time.sleep(0.5)
    node.end(signal.SIGKILL)
    wait_for("another master", lambda: run.redis.node_of(SHARED) is not node, 30)
    run.healed()
    mended(run, node)


def old_map(run: Run) -> None:
    """An instance sleeps while a slot moves, and wakes up in the rush."""
    source = another(run)
    target, sleeper, voucher = another(run, source), run.stack.instances[1], on(run, source)[0]
    sleeper.signal(signal.SIGSTOP)
    run.redis.move(key(voucher, "voucher"), target)
    sleeper.signal(signal.SIGCONT)
    sells(run, voucher, SOLD_S, "after its sleep")


def majority_lost(run: Run) -> None:
    """Two masters and their replicas stop. Nothing is decided, and nothing is sold, until they are back."""
    kept = another(run)
    gone = [one for one in run.redis.nodes if one is not kept and one is not run.redis.replica_of(kept)]
    for one in gone:
        one.signal(signal.SIGSTOP)
    time.sleep(AWAY_S)
    for one in gone:
        one.signal(signal.SIGCONT)
    run.healed()
    wait_for("a whole cluster", run.redis.is_whole, 60)
    wait_for("open", lambda: all(is_open(run, voucher) for voucher in run.vouchers), 30)


def bus_cut(run: Run) -> None:
    """Clients reach a master, the other nodes do not. They replace it; it has no majority, and takes no writes."""
    master = another(run)
    vouchers = on(run, master)
    with run.redis.bus(master):
        run.redis.replaced(master, master.slots()[0][0])
        for voucher in vouchers:
            sells(run, voucher, SOLD_S, "the new master")
        run.healed()
    wait_for("a whole cluster", run.redis.is_whole, 60)


def all_buses_cut(run: Run) -> None:
    """Clients reach every node, and no node another one: nothing is sold, and nothing decided, until they do."""
    with run.redis.bus():
        wait_for("no majority", lambda: not any(one.writes() for one in run.redis.nodes), 10)
        time.sleep(AWAY_S)
        run.healed()
    wait_for("a whole cluster", run.redis.is_whole, 60)
    wait_for("open", lambda: all(is_open(run, voucher) for voucher in run.vouchers), 30)


OF_A_CLUSTER = dict(replicas=1, vouchers=VOUCHERS, units=400, seconds=5.0)
ROWS = [
    Fault("64a", "cluster: a master killed and replaced", master_killed, refused_202=25, rebuilds=VOUCHERS, unknown=0.5, **OF_A_CLUSTER),
    Fault(
        "64b", "cluster: the same, with a replica that lags by 0.4 s", master_killed_before_a_laggard,
        refused_202=60, rebuilds=VOUCHERS, unknown=0.5, **OF_A_CLUSTER,
    ),
    Fault("64c", "cluster: slots moved under load, there and back", slots_moved, rebuilds=8, unknown=0.5, **OF_A_CLUSTER),
    Fault("64d", "cluster: SCRIPT FLUSH at one node", scripts_flushed, **OF_A_CLUSTER),
    Fault(
        "64e", "cluster: the node of the sessions is away", sessions_away, rebuilds=VOUCHERS, unknown=0.6,
        env={"SECKILL_LOCK_TTL_MS": "2000"}, **OF_A_CLUSTER,
    ),
    Fault(
        "64f", "cluster: the same, and an instance is killed", sessions_away_and_one_killed,
        refused_202=25, rebuilds=VOUCHERS, unknown=0.6, **OF_A_CLUSTER,
    ),
    Fault("64g", "cluster: an instance with an old slot map", old_map, rebuilds=2, unknown=0.3, **OF_A_CLUSTER),
    Fault("64h", "cluster: the majority lost and back", majority_lost, rebuilds=VOUCHERS, unknown=0.9, **OF_A_CLUSTER),
    Fault("64i", "cluster: only the bus of a master is cut", bus_cut, refused_202=25, rebuilds=VOUCHERS, unknown=0.5, **OF_A_CLUSTER),
    Fault(
        "64k", "cluster: a master replaced and taken back at once", taken_over_and_back,
        refused_202=25, rebuilds=2 * VOUCHERS, unknown=0.5, rate=0, **OF_A_CLUSTER,
    ),
    Fault("64j", "cluster: only the buses are cut, all of them", all_buses_cut, rebuilds=VOUCHERS, unknown=0.9, **OF_A_CLUSTER),
]
