"""The soak: the whole life of orders under all faults at once, at random, in rounds.

In each round a crowd buys several vouchers (quantities, keys, repeats), pays, cancels, gets refunds or lets its orders
expire. Two operators add and remove units, pause, resume, extend, close and open vouchers. On five lanes troubles occur
at random moments: instances, Redis, PostgreSQL, the links between them, and clients. Troubles of one lane never overlap,
those of different lanes do. Then everything is repaired, ended sales must be retired, and the suite's checker judges the
round like a row; so a failure is found near its cause.

All decisions of a round are drawn before it begins, from the seed and its number: `--seed X --round N` repeats them.
Timing depends on the machine, so a failure may need a few repetitions.

The allowed cost of a round follows from its troubles. Each may cost what its row in the table allows, and for each
voucher if a rebuild is meant. Two simultaneous troubles may cost more than the sum; `allowances` has these cases:
- Redis loses data while nothing can be committed, or while an instance is paused: everything accepted since then is
  granted again later, when it may be gone.
- Redis loses data when an instance has died and its orders are not settled yet, or the other way round: both places of
  an accepted order are gone, as in 37.
- Redis loses data when an instance ends and PostgreSQL is away: what waits to be granted again is refused then, or has no
  end at all.
- A journal is cut when an instance has died, or the other way round: of a granted order that nobody holds, Redis has
  only the buyer. The audit finds that the books differ.
"""

from __future__ import annotations

import random
import re
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Callable

from driver import Run, run_fault
from fault import Fault, Result, Terms
from faults import FAULTS
from life import Habits
from machine import Deadline
from rows_attackers import go_on_slowly, hang_up, slow_clients
from rows_operators import Operator, made_once, up_to_date
from rows_tools import clock_env, in_background, instant, key, set_clock, terms, within
from stack import OPERATE_TOKEN, OTHER_TOKEN, ROOT, Broken, NotInjectable, Stack, free_port, wait_for

ROWS = {row.name: row for row in FAULTS}
POINTS = sorted({
    point
    for file in (ROOT / "src").rglob("*.c")
    for point in re.findall(r'SK_FAILPOINT\("([a-z.]+)"\)', file.read_text())
    if point != "http.request"  # from which allocations are counted
})
UNITS, LIMIT, PRICE = (20, 400), 3, 5
MOST_VOUCHERS = 8  # as many as are watched
DEFINITE_S = 40.0  # until an operator's call is answered: longer than any sequence of troubles
RETIRED_S = 80.0  # as in rows 34s and 46, with several to retire; after a failed attempt the next comes a minute later
NEAR_S = 15.0  # until a dead instance's orders are settled, also if a store comes back meanwhile
HELD = 60  # accepted orders that an instance holds at most, as in 37
INTERRUPTED = 1  # a rebuild that a trouble interrupts is repeated once
AFTER_S = 1.5  # links, sessions and vouchers need this long after a trouble

# ---- troubles ----


@dataclass(frozen=True)
class Trouble:
    """Something that breaks and is repaired by itself."""

    name: str
    make: Callable[[Run, random.Random], None]
    row: Fault | None = None  # the row whose allowances apply
    kills: bool = False  # kills an instance at once
    stops: bool = False  # pauses an instance, or commits: orders accepted meanwhile are in one place more than usual
    ends: bool = False  # ends an instance, which gives up what it cannot settle in time
    loses: bool = False  # loses Redis's data on granted orders

    @property
    def leaves_answers_unheard(self) -> bool:
        """Whether an instance may not read what Redis answered: then the journal alone has its orders."""
        return self.kills or self.stops or self in LANES["links"]


def as_row(name: str, **more) -> Trouble:
    row = ROWS[name]
    return Trouble(row.title, lambda run, rng: row.inject(run), row, loses=row.refused_202 > 0, **more)


def some(run: Run, rng: random.Random):
    return rng.choice(run.stack.instances)


def instance_killed(run: Run, rng: random.Random) -> None:
    one = some(run, rng)
    one.end(signal.SIGKILL)
    time.sleep(rng.uniform(0.1, 2.5))
    one.run()


def instance_killed_at_a_point(run: Run, rng: random.Random) -> None:
    """It dies at this point, if it reaches it."""
    one, point, number = some(run, rng), rng.choice(POINTS), rng.randint(1, 40)
    one.end(signal.SIGTERM)
    one.run({"SECKILL_FAILPOINTS": f"{point}=kill@{number}"})
    deadline = time.monotonic() + rng.uniform(3, 8)
    while one.alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    died = not one.alive()
    one.end(signal.SIGKILL)
    run.note(f"{one.name} {'killed at' if died else 'never passed'} {point}, {number}")
    time.sleep(rng.uniform(0.1, 1.5))
    one.run()


def instance_stopped(run: Run, rng: random.Random) -> None:
    one = some(run, rng)
    one.signal(signal.SIGSTOP)
    time.sleep(rng.uniform(0.2, 4))
    one.signal(signal.SIGCONT)


def instance_terminated(run: Run, rng: random.Random) -> None:
    one = some(run, rng)
    one.end(signal.SIGTERM)
    time.sleep(rng.uniform(0, 1))
    one.run()


def instance_clock_steps(run: Run, rng: random.Random) -> None:
    one = some(run, rng)
    file = run.stack.folder / f"clock-{one.name}"
    one.end(signal.SIGTERM)
    one.run(clock_env(run, file))
    for seconds in (*rng.sample((60, -60, 3600, -3600), 2), 0):
        time.sleep(rng.uniform(0.3, 1))
        set_clock(file, seconds)
    one.end(signal.SIGTERM)
    one.run()


def commits_held(run: Run, rng: random.Random) -> None:
    run.hold_orders(rng.uniform(0.3, 3)).wait()


def links_dropped(run: Run, rng: random.Random) -> None:
    for _ in range(rng.randint(1, 10)):
        rng.choice([run.stack.redis_proxy, run.stack.pg_proxy]).drop_all()
        time.sleep(rng.uniform(0.02, 0.3))


def voucher_deleted(run: Run, rng: random.Random) -> None:
    """With its buyers, or without them, like one that was never loaded."""
    voucher, parts = rng.choice(run.vouchers), ["voucher", "buyers"][: rng.randint(1, 2)]
    run.redis.call("DEL", *[key(voucher, part) for part in parts])


def journal_cut(run: SoakRun, rng: random.Random) -> None:
    voucher = rng.choice(run.vouchers)
    journal = key(voucher, "journal")
    run.journals_cut.append((voucher, time.time()))
    run.redis.call(*rng.choice([("DEL", journal), ("XTRIM", journal, "MAXLEN", 1)]))


def clients_leave(run: Run, rng: random.Random) -> None:
    hang_up(run, rng.randint(100, 1000))


def clients_slow(run: Run, rng: random.Random) -> None:
    links = slow_clients(run, rng.randint(10, 100))
    until = time.monotonic() + rng.uniform(1, 4)
    while time.monotonic() < until:
        go_on_slowly(links)
        time.sleep(0.2)
    for link, _, _ in links:
        link.close()


CLIENTS = [
    Trouble("clients reset, half-close, hang up", clients_leave, ROWS["21"]),
    Trouble("slow clients", clients_slow, ROWS["22"]),
]
LANES: dict[str, list[Trouble]] = {
    "instances": [
        Trouble("an instance killed", instance_killed, ROWS["33c"], kills=True),
        Trouble("an instance killed at a point", instance_killed_at_a_point, ROWS["1l"], kills=True),
        Trouble("an instance stopped", instance_stopped, ROWS["2"], stops=True),
        Trouble("an instance terminated", instance_terminated, ROWS["28"], stops=True, ends=True),
        Trouble("an instance's clock steps", instance_clock_steps, ROWS["23a"], stops=True, ends=True),
    ],
    "redis": [
        as_row(name) for name in ("4a", "5a", "5b", "6a", "6b", "6c", "7a", "8", "9", "10", "11a", "11b", "12a", "12b", "23b")
    ]
    + [
        Trouble("a voucher's keys deleted", voucher_deleted, ROWS["41d"], loses=True),
        Trouble("a journal deleted or trimmed", journal_cut, ROWS["25a"], loses=True),
    ],
    "postgres": [as_row(name, stops=True) for name in ("13a", "13b", "14", "15", "18")]
    + [Trouble("commits held", commits_held, ROWS["6b"], stops=True)],
    "links": [as_row(name, stops=True) for name in ("19a", "19b", "19c", "19d", "20a", "20b", "20c", "20d", "20e")]
    + [Trouble("links dropped", links_dropped, ROWS["20b"])],
    "clients": CLIENTS,
}


# ---- with stores that fail over ----


def master_killed(run: Run, rng: random.Random) -> None:
    run.watched.fail_over()
    time.sleep(rng.uniform(0, 2))
    run.watched.run_replica()


def master_killed_before_a_laggard(run: Run, rng: random.Random) -> None:
    run.watched.replica.call("REPLICAOF", "127.0.0.1", free_port())
    time.sleep(rng.uniform(0, 0.4))
    master_killed(run, rng)


def master_back_as_a_master(run: Run, rng: random.Random) -> None:
    old = run.watched.fail_over(signal.SIGSTOP)
    time.sleep(rng.uniform(0, 1))
    old.signal(signal.SIGCONT)
    time.sleep(rng.uniform(0, 2))
    run.watched.run_replica()


def sentinels_away(run: Run, rng: random.Random) -> None:
    away = rng.sample(run.watched.sentinels, rng.randint(1, 3))
    for one in away:
        one.end(signal.SIGKILL)
    time.sleep(rng.uniform(0.5, 4))
    for one in away:
        one.run()


def primary_killed(run: Run, rng: random.Random) -> None:
    port = run.postgres.port
    run.postgres.kill()
    time.sleep(rng.uniform(0, 1))
    run.stack.fail_over()
    time.sleep(rng.uniform(0, 1))
    run.stack.add_standby(port)


def standby_away(run: Run, rng: random.Random) -> None:
    run.stack.standby.stop_immediate()
    time.sleep(rng.uniform(0.2, 4))
    run.stack.standby.run_again()


HA_LANES: dict[str, list[Trouble]] = {
    "instances": LANES["instances"],
    "redis": [
        Trouble("Redis's master killed", master_killed, ROWS["62a"], loses=True),
        Trouble("Redis's master killed, the replica behind", master_killed_before_a_laggard, ROWS["62b"], loses=True),
        Trouble("Redis's old master back as a master", master_back_as_a_master, ROWS["62c"], loses=True),
        Trouble("sentinels away", sentinels_away, ROWS["62d"]),
    ],
    "postgres": [
        Trouble("PostgreSQL's primary killed", primary_killed, ROWS["61b"], stops=True),
        Trouble("the standby away", standby_away, ROWS["61d"], stops=True),
        Trouble("commits held", commits_held, ROWS["6b"], stops=True),
    ],
    "clients": CLIENTS,
}
# ---- on a cluster with replicas, and shards ----


def node_replaced(run: Run, rng: random.Random) -> None:
    cluster, how = run.redis, rng.choice((signal.SIGKILL, signal.SIGSTOP))
    cluster.kill(rng.choice(cluster.masters()), how)
    time.sleep(rng.uniform(0, 2))
    cluster.mend()


def laggard_promoted(run: Run, rng: random.Random) -> None:
    cluster = run.redis
    master = rng.choice(cluster.masters())
    replica = cluster.replica_of(master)
    replica.call("CONFIG", "SET", "masteruser", "nobody", "masterauth", "wrong")
    master.call("CLIENT", "KILL", "TYPE", "replica")
    time.sleep(rng.uniform(0, 0.4))
    cluster.kill(master)
    cluster.mend()


def slot_moved(run: Run, rng: random.Random) -> None:
    cluster = run.redis
    name = key(rng.choice(run.vouchers), "voucher")
    target = rng.choice([one for one in cluster.masters() if one is not cluster.node_of(name)])
    cluster.move(name, target, between=lambda: time.sleep(rng.uniform(0, 0.5)))


def scripts_flushed(run: Run, rng: random.Random) -> None:
    for _ in range(rng.randint(1, 10)):
        rng.choice(run.redis.masters()).call("SCRIPT", "FLUSH")
        time.sleep(0.1)


def majority_away(run: Run, rng: random.Random) -> None:
    away = rng.sample(run.redis.masters(), 2)
    for one in away:
        one.signal(signal.SIGSTOP)
        run.redis.replica_of(one).signal(signal.SIGSTOP)
    time.sleep(rng.uniform(0.5, 4))
    run.redis.mend()


def bus_cut(run: Run, rng: random.Random) -> None:
    cluster = run.redis
    with cluster.bus(rng.choice([None, *cluster.masters()])):
        time.sleep(rng.uniform(0.5, 4))
    cluster.mend()


def shard_killed(run: Run, rng: random.Random) -> None:
    shard = rng.choice(run.stack.shards)
    shard.kill()
    time.sleep(rng.uniform(0, 4))
    shard.run()


def shard_hangs(run: Run, rng: random.Random) -> None:
    shard = rng.choice(run.stack.shards)
    shard.hang()
    time.sleep(rng.uniform(0.5, 4))
    shard.go_on()


def commits_of_a_shard_held(run: Run, rng: random.Random) -> None:
    run.hold_orders(rng.uniform(0.3, 3), server=rng.choice(run.stack.shards)).wait()


CLUSTER_LANES: dict[str, list[Trouble]] = {
    "instances": LANES["instances"],
    "redis": [
        Trouble("a node replaced", node_replaced, ROWS["64a"], loses=True),
        Trouble("a node replaced by one that lags", laggard_promoted, ROWS["64b"], loses=True),
        Trouble("a slot moved", slot_moved, ROWS["64c"]),
        Trouble("scripts flushed at nodes", scripts_flushed, ROWS["64d"]),
        Trouble("the majority away", majority_away, ROWS["64h"], loses=True),
        Trouble("the bus of a node cut", bus_cut, ROWS["64i"], loses=True),
        Trouble("a voucher's keys deleted", voucher_deleted, ROWS["41d"], loses=True),
    ],
    "postgres": [
        Trouble("a shard killed", shard_killed, ROWS["65a"], stops=True),
        Trouble("a shard hangs", shard_hangs, ROWS["65c"], stops=True),
        Trouble("commits of a shard held", commits_of_a_shard_held, ROWS["6b"], stops=True),
    ],
    "clients": CLIENTS,
}
DOINGS = {  # of the operators, with their weights
    "add": 5,
    "reduce": 4,
    "pause": 3,
    "extend": 3,
    "shorten": 2,
    "close": 1,
    "open": 4,
    "reconcile": 1,
}

# ---- a round ----


@dataclass(frozen=True)
class Step:
    """After a pause, a trouble of a lane or an operator's action, and the seed of its details."""

    pause_s: float
    what: Trouble | str
    seed: str


@dataclass
class Done:
    what: Trouble | None
    text: str
    began: float
    ended: float = 0.0


@dataclass
class Round:
    """Everything drawn before it begins."""

    number: int
    seed: int
    fault: Fault
    lanes: dict[str, list[Step]] = field(default_factory=dict)
    operators: dict[str, list[Step]] = field(default_factory=dict)


STORES = {  # the lanes, and what the stores of a round are; proxies and their troubles are for single ones
    "": (LANES, {"proxied": True}),
    "ha": (HA_LANES, {"standby": True, "sentinels": True}),
    "cluster": (CLUSTER_LANES, {"replicas": 1, "shards": 2}),
}


def run_round(stack: Stack, seed: int, number: int, under: Terms = Terms(), kind: str = "") -> Result:
    return run_fault(stack, drawn(seed, number, kind).fault, seed, under, SoakRun)


def drawn(seed: int, number: int, kind: str = "") -> Round:
    """`kind`: of STORES."""
    (lanes_of_all, stores), rng = STORES[kind], random.Random(f"soak/{seed}/{number}")
    seconds, instances, rate = rng.uniform(20, 40), rng.choice((2, 2, 3)), rng.randint(60, 160)
    habits = Habits(
        moves=rng.uniform(0.3, 0.9), keyed=rng.uniform(0.1, 0.5), limit=rng.randint(1, LIMIT), price=PRICE,
        pay_within_s=rng.choice((2, 3, 5)),
    )
    env = {"SECKILL_RETIRE_AFTER_MS": "0", "SECKILL_REACTORS": rng.choice(("1", "1", "2"))}
    if rng.random() < 0.3:
        env["SECKILL_BATCH_MAX"] = "8"
    fault = Fault(
        f"r{number}", "", live_through,
        instances=instances, units=rng.randint(*UNITS), users=int(seconds * rate), rate=rate,
        seconds=seconds, vouchers=rng.randint(1, 3), habits=habits, spread=rng.random() < 0.15, opposite=rng.random() < 0.15,
        appendfsync=rng.choice(("always", "always", "everysec")), env=env, **stores,
    )
    one = Round(number, seed, fault)
    busy = rng.sample(list(lanes_of_all), rng.randint(1, len(lanes_of_all)))
    for lane, troubles in lanes_of_all.items():
        if lane in busy:
            one.lanes[lane] = steps(rng, seconds, rng.uniform(1.5, 6), lambda: rng.choice(troubles))
    for name in ("olga", "otto"):
        doing = lambda: rng.choices([*DOINGS], [*DOINGS.values()])[0]
        one.operators[name] = steps(rng, seconds, rng.uniform(0.3, 2), doing)
    return one


def steps(rng: random.Random, seconds: float, pause_s: float, choose: Callable) -> list[Step]:
    """More than there is time for, since each takes some."""
    pauses = [rng.expovariate(1 / pause_s) for _ in range(int(seconds / pause_s) + 1)]
    return [Step(pause, choose(), f"{rng.random()}") for pause in pauses]


class SoakRun(Run):
    """A round in progress."""

    LEAD_IN = 0.05

    def __init__(self, stack, fault, seed, terms):
        super().__init__(stack, fault, seed, terms)
        kind = "ha" if fault.sentinels else "cluster" if fault.replicas else ""
        self.round = drawn(seed, int(fault.name.removeprefix("r")), kind)
        self.done: list[Done] = []
        self.lock, self.until = threading.Lock(), 0.0
        self.units: dict[str, int] = {}  # of each voucher when it was made
        self.staff: dict[tuple[str, str], Operator] = {}
        self.opened = 0
        self.journals_cut: list[tuple[str, float]] = []  # of which voucher, and when

    def prepare(self) -> None:
        super().prepare()
        self.units = {voucher: self.fault.units for voucher in self.vouchers}

    def load_and_inject(self) -> int:
        back_ms = super().load_and_inject()
        sales_end(self)
        self.fault = replace(self.fault, title=title(self), **allowances(self))
        kills = [one for one in self.done if one.what is not None and one.what.kills]
        self.retirement_may_stop = bool(kills) or any("Redis" in one.text for one in self.done)
        unheard = [one for one in self.done if one.what is not None and one.what.leaves_answers_unheard]
        self.cut = {id for id, at in self.journals_cut if any(one.began - NEAR_S < at < one.ended + NEAR_S for one in unheard)}
        return back_ms

    def note(self, text: str, what: Trouble | None = None) -> Done:
        with self.lock:
            self.done.append(Done(what, text, time.time()))
            return self.done[-1]

    def time_left(self) -> float:
        return self.until - time.monotonic()

    def schedule(self) -> list[str]:
        return [f"{done.began - self.began:6.2f} s  {done.text}" for done in sorted(self.done, key=lambda one: one.began)]

    def measured(self) -> dict:
        moves = Counter(event.what for event in self.history)
        troubles = Counter(done.what.name for done in self.done if done.what is not None)
        made = Counter(what or "terms" for one in self.staff.values() for what, _ in one.done)
        return super().measured() | {
            "moves": dict(moves), "troubles": dict(troubles), "operators": dict(made), "schedule": self.schedule(),
        }


def live_through(run: SoakRun) -> None:
    """The inject function of a round: everything that happens besides the crowd."""
    run.until = time.monotonic() + run.fault.seconds * (1 - 2 * run.LEAD_IN)
    for one in run.stack.instances:
        one.expected_exits.add(-signal.SIGKILL)
    threads = [in_background(lambda lane=lane: trouble_of(run, lane)) for lane in run.round.lanes.values()]
    threads += [in_background(lambda name=name: operate(run, name)) for name in run.round.operators]
    broken = []
    for thread in threads:
        try:
            thread.join()
        except Broken as one:
            broken.append(one)
    mend(run)
    if broken:
        raise broken[0]


def trouble_of(run: SoakRun, lane: list[Step]) -> None:
    for step in lane:
        if step.pause_s > run.time_left():
            return
        time.sleep(step.pause_s)
        done = run.note(step.what.name, step.what)
        try:
            step.what.make(run, random.Random(step.seed))
        except (Broken, NotInjectable, OSError, RuntimeError, ValueError) as error:
            done.text += f" (half: {str(error)[:80]})"  # another trouble interfered; the end repairs it
            mend_own(run, step.what)
        done.ended = time.time()


def mend_own(run: SoakRun, what: Trouble) -> None:
    """An interrupted trouble leaves its lane as the next one expects it."""
    if what in HA_LANES["redis"]:
        run.watched.mend()
        run.watched.run_replica()
    if what in LANES["redis"]:
        redis_up(run)
    if what in CLUSTER_LANES["redis"]:
        run.redis.mend()
    if what in LANES["postgres"] + HA_LANES["postgres"] + CLUSTER_LANES["postgres"]:
        postgres_up(run)


def redis_up(run: SoakRun) -> None:
    if not run.redis.alive():
        run.redis.run(*run.stack.redis_settings)
    run.redis.signal(signal.SIGCONT)
    wait_for("Redis", run.redis.answers)
    run.redis.call("CONFIG", "SET", "maxmemory", 0)
    if "role:slave" in run.redis.call("INFO", "replication"):
        run.redis.call("REPLICAOF", "NO", "ONE")


def postgres_up(run: SoakRun) -> None:
    for one in run.stack.shards:
        if one.alive():
            one.go_on()
    if not run.postgres.alive():
        run.postgres.run()


def mend(run: SoakRun) -> None:
    """Repairs what a row repairs by itself, and what one was kept from repairing."""
    if run.watched is not None:
        run.watched.mend()
    if run.stack.cluster is not None:
        run.redis.mend()
    else:
        redis_up(run)
    postgres_up(run)
    wait_for("PostgreSQL", run.postgres.answers)
    run.postgres.sql("alter role seckill reset default_transaction_read_only")
    for proxy in (run.stack.redis_proxy, run.stack.pg_proxy):
        proxy.reset(proxy.upstream)
    for one in run.stack.instances:
        one.signal(signal.SIGCONT)
    run.restart_the_dead()
    for one in run.stack.instances:
        wait_for(f"{one.name} ready", one.ready)


def title(run: SoakRun) -> str:
    troubles = sum(done.what is not None for done in run.done)
    changes = sum(len(one.done) for one in run.staff.values())
    return f"{len(run.stack.instances)} instances, {len(run.vouchers)} vouchers, {troubles} troubles, {changes} changes"


# ---- operators ----


def operate(run: SoakRun, name: str) -> None:
    for step in run.round.operators[name]:
        if step.pause_s > run.time_left():
            return
        time.sleep(step.pause_s)
        rng = random.Random(step.seed)
        if step.what == "open":
            open_another(run, rng)
        else:
            do(run, employee(run, name, rng.choice(run.vouchers), rng), step.what, rng)


def employee(run: SoakRun, name: str, voucher: str, rng: random.Random) -> Operator:
    """One for each voucher, since each is accounted for separately; with its own keys."""
    with run.lock:
        token = {"olga": OPERATE_TOKEN, "otto": OTHER_TOKEN}[name]
        made = Operator(run, voucher, name, token, rng, patience_s=DEFINITE_S, calls=int(voucher) * 1000)
        return run.staff.setdefault((name, voucher), made)


def do(run: SoakRun, one: Operator, what: str, rng: random.Random) -> None:
    """The first voucher is neither paused nor ended: troubles need one that sells."""
    steady = one.voucher == run.vouchers[0]
    instance, began = rng.randrange(3), time.time()
    if what in ("add", "reduce"):
        answer = one.call("stock", {what: rng.randint(1, 30)}, instance=instance)
    elif what == "reconcile":
        answer = one.call("reconcile", instance=instance)
    elif steady:
        return
    elif what == "pause":
        answer = one.call("pause", instance=instance)
        time.sleep(rng.uniform(0, 1.5))
        if rng.random() < 0.9:
            one.call("resume", instance=instance + 1)
    elif what == "close":
        answer = one.call("close", instance=instance)
    else:
        until_s = rng.choice((rng.uniform(5, 15), 86400.0)) if what == "extend" else rng.uniform(0.5, 4)
        answer = one.call("", {"end_at": instant(until_s), "allow_past": True}, "PATCH", instance=instance)
    run.note(f"{one.name}: {what} of {one.voucher}: {answer[0]} after {time.time() - began:.2f} s")


def open_another(run: SoakRun, rng: random.Random) -> None:
    """One that begins soon or has begun, and ends soon or never. Its client retries until it exists."""
    with run.lock:
        if run.opened + run.fault.vouchers >= MOST_VOUCHERS:
            return
        run.opened += 1
        name = f"{run.fault.name}-new-{run.opened}"
    begin_s = rng.choice((-3600.0, -3600.0, rng.uniform(0.5, 4)))
    end_s = rng.choice((86400.0, rng.uniform(5, 20)))
    wish = terms(run, rng.randint(*UNITS), begin_s, end_s, title=name) | {"allow_past": True}
    wish |= {"price_cents": PRICE, "limit": run.fault.habits.limit, "pay_within_s": run.fault.habits.pay_within_s}
    deadline, status, n = Deadline(DEFINITE_S), 0, rng.randrange(3)
    while status in (0, 503) and not deadline.passed():
        n += 1
        one = run.stack.instances[n % len(run.stack.instances)]
        status, document = one.ask("POST", "/admin/vouchers", body=wish, timeout=1.0, headers={"Idempotency-Key": name})
        time.sleep(0.1)
    if status != 201:
        run.seen_meanwhile.append(f"no voucher {name}: {status} {document}")
        return
    run.note(f"voucher {document['id']}: {wish['stock']} units, from {begin_s:.1f} to {end_s:.1f} s")
    run.units[document["id"]] = wish["stock"]
    run.vouchers.append(document["id"])


# ---- the end of a round ----


def sales_end(run: SoakRun) -> None:
    """Sales due to end soon end first; ended ones are retired; each operator's change was made once."""
    ends = "select coalesce(extract(epoch from max(end_at) - now()), 0) from seckill_voucher where end_at < now() + interval '5 min'"
    time.sleep(max(float(row[0]) for row in [["0"], *run.postgres.sql(ends)]))
    open_still = "select id, state from seckill_voucher where end_at <= now() and state <> 'retired'"
    bound = RETIRED_S + run.fault.habits.pay_within_s
    if not within(run, "what has ended is retired", lambda: not run.postgres.sql(open_still), bound):
        run.seen_meanwhile.append(f"not retired: {run.postgres.sql(open_still)}")
    retired = {row[0] for row in run.postgres.sql("select id from seckill_voucher where state = 'retired'")}
    for voucher in run.vouchers:
        staff = [one for one in run.staff.values() if one.voucher == voucher]
        made_once(run, voucher, staff, run.units[voucher])
        if voucher not in retired:
            up_to_date(run, voucher)


# ---- the allowed cost ----


def allowances(run: SoakRun) -> dict:
    """See the head of this file."""
    done = [one for one in run.done if one.what is not None]
    refused = sum(one.what.row.refused_202 for one in done)
    rebuilds = sum(one.what.row.rebuilds + INTERRUPTED for one in done) * len(run.vouchers)
    rebuilds += sum(what == "reconcile" for one in run.staff.values() for what, _ in one.done + one.doubtful)
    rebuilds += sum(one.repeated for one in run.staff.values())  # see the_audit_had_nothing_to_mend
    rebuilds += 2 * len(run.vouchers)  # each may be retired, which is a rebuild, and may be tried too early
    losses = [one for one in done if one.what.loses]
    lost, given_up = left_behind(run, bool(losses)), 0
    for loss in losses:
        waiting = int(run.fault.rate * held_up_s(done, loss))
        near = [one for one in done if meets(loss, one, NEAR_S + troubled_s(done, loss, one))]
        ending = sum(gives_up(done, one) for one in near)
        refused += waiting
        lost += (HELD + waiting) * sum(one.what.kills for one in near)
        given_up += (HELD + waiting) * ending
    return {
        "refused_202": refused, "rebuilds": rebuilds, "lost_202": lost, "given_up": given_up,
        "unknown": unknown_part(run, done),
    }


def left_behind(run: SoakRun, with_journal: bool) -> int:
    """How many orders instances that were not drained in time have logged: those that nobody has, or only the journal."""
    names = "without_end|kept_by_journal" if with_journal else "without_end"
    return sum(int(number) for line in run.logs() for number in re.findall(f" (?:{names})=(\\d+)", line))


def gives_up(done: list[Done], one: Done) -> bool:
    """Whether an instance ended while something kept it from PostgreSQL."""
    others = (other for other in done if other.what.stops and other.what not in LANES["instances"])
    return one.what.ends and any(meets(other, one, AFTER_S) for other in others)


def held_up_s(done: list[Done], loss: Done) -> float:
    """How long commits waited around a loss: orders accepted then were only where they were granted."""
    return sum(one.ended - one.began + AFTER_S for one in done if one.what.stops and meets(loss, one, NEAR_S))


def troubled_s(done: list[Done], one: Done, other: Done) -> float:
    """How long something was broken between the two: meanwhile nobody may be able to settle an order."""
    begin, end = min(one.ended, other.ended), max(one.began, other.began)
    covered, last = 0.0, begin
    for trouble in sorted(done, key=lambda trouble: trouble.began):
        began, ended = max(trouble.began, last), min(trouble.ended + AFTER_S, end)
        covered, last = covered + max(0.0, ended - began), max(last, ended)
    return covered


def meets(one: Done, other: Done, seconds: float) -> bool:
    return one.began < other.ended + seconds and other.began < one.ended + seconds


def unknown_part(run: SoakRun, done: list[Done]) -> float:
    """The share of the round with some trouble, or with reconnecting links, plus some slack."""
    covered, last = 0.0, 0.0
    for one in sorted(done, key=lambda one: one.began):
        began, ended = max(one.began, last), max(one.ended + AFTER_S, last)
        covered, last = covered + ended - began, ended
    return min(0.95, 0.1 + covered / run.fault.seconds)


# ---- the last lines ----


def summary(results: list) -> str:
    outcomes, moves, troubles, operators, broken = Counter(), Counter(), Counter(), Counter(), Counter()
    for one in results:
        outcomes.update(one.outcomes)
        for counts, name in ((moves, "moves"), (troubles, "troubles"), (operators, "operators")):
            counts.update(one.measured.get(name, {}))
        broken.update(one.complaints.keys())
    lines = {
        "purchases": outcomes,
        "moves": Counter({name: moves[name] for name in ("pay", "cancel", "refund")}),
        "changes by operators": operators,
        "troubles": troubles,
        "complaints": broken,
    }
    shown = [f"{sum(counts.values())} {what}: {listed(counts)}" if counts else f"0 {what}" for what, counts in lines.items()]
    return "\n".join([f"{len(results)} rounds", *shown])


def listed(counts: Counter) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())
