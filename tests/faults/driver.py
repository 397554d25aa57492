"""Runs one fault: both stores as new, instances, a crowd; the fault in the middle of it; then waits until the
service is back and everything has settled, and lets the checker judge."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Callable

import checker
from crowd import Crowd, Event, write_history
from stack import Broken, NotInjectable, Stack, wait_for

SETTLE_S = 30.0
BACK_S = 30.0


@dataclass(frozen=True)
class Fault:
    """One row of the table. `inject` runs while the crowd buys; what it breaks it mends."""

    name: str  # the number in the list, and a letter
    title: str
    inject: Callable[["Run"], None]
    short: bool = False  # part of the selection for CI
    instances: int = 2
    units: int = 300
    users: int = 700
    rate: int = 350
    seconds: float = 3.0
    vouchers: int = 1
    spread: bool = False
    opposite: bool = False
    proxied: bool = False
    appendfsync: str = "always"
    env: dict[str, str] = field(default_factory=dict)
    first_env: dict[str, str] = field(default_factory=dict)
    may_differ: bool = False  # the fault itself makes the books differ, and the audit is there to mend it
    letters: int = 0
    fresh_redis: bool = False
    refused_202: int = 0  # accepted orders that may end as refused, where something is lost
    rebuilds: int = 0  # reconciles that the fault may cause, beyond the first warm-up of each voucher
    unknown: float = 0.05  # part of the purchases whose outcome may be unknown
    known: str = ""  # what the next release mends: the row is expected to fail until then
    known_by: tuple[str, ...] = ()  # by these assertions, and by no other
    lost_202: int = 0  # accepted orders that may have no end: two faults at once took both places they were in
    full: bool = False  # with --all only


@dataclass
class Result:
    fault: Fault
    ran: bool = True
    why: str = ""
    complaints: dict[str, list[str]] = field(default_factory=dict)
    recovery_ms: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def held(self) -> bool:
        return self.ran and not self.complaints

    @property
    def as_known(self) -> bool:
        """Whether it fails as the row says that it does."""
        return bool(self.fault.known and self.complaints) and set(self.complaints) <= set(self.fault.known_by)

    @property
    def well(self) -> bool:
        return self.as_known if self.fault.known else self.held

    @property
    def verdict(self) -> str:
        if self.as_known:
            return f"known {self.fault.known}"
        if self.fault.known and self.held:
            return "unexpected pass: mended? then remove the mark"
        return "held" if self.held else "BROKEN"

    def as_object(self) -> dict:
        return {
            "fault": self.fault.name,
            "title": self.fault.title,
            "ran": self.ran,
            "held": self.held,
            "verdict": self.verdict if self.ran else "not run",
            "recovery_ms": self.recovery_ms if self.ran else None,
            "requests": sum(self.outcomes.values()),
            **{name: self.outcomes.get(name, 0) for name in ("ok", "refused", "unknown")},
            "why": self.why or self.complaints,
        }


class Run:
    """One fault under way: what its inject function works with."""

    def __init__(self, stack: Stack, fault: Fault, seed: int):
        self.stack, self.fault = stack, fault
        self.rng = random.Random(f"{seed}/{fault.name}")
        self.history: list[Event] = []
        self.healed_at = 0.0
        self.vouchers: list[str] = []
        self.leaks: list[str] = []
        self.seen_meanwhile: list[str] = []  # wrong, though nothing of it is left afterwards

    # ---- for the faults ----

    @property
    def redis(self):
        return self.stack.redis

    @property
    def postgres(self):
        return self.stack.postgres

    @property
    def first(self):
        return self.stack.instances[0]

    def healed(self) -> None:
        self.healed_at = time.monotonic()

    def key(self, part: str) -> str:
        return f"seckill:{{{self.vouchers[0]}}}:{part}"

    def hold_orders(self, seconds: float, table: str = "voucher_order") -> subprocess.Popen:
        """Nobody can commit an order for so long; orders pile up in the instances. With the vouchers' table, nobody
        can begin a reconcile either."""
        script = f"begin; lock table {table} in share mode; select pg_sleep({seconds}); commit;"
        command = self.postgres.psql("seckill", "-c", script)
        holder = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.1)
        return holder

    def buy(self, user: str, instance: int = 1, timeout: float = 2.0) -> None:
        """One request beside the crowd's, kept in the history as theirs are."""
        voucher, began = self.vouchers[0], time.time()
        status, document = self.stack.instances[instance].ask("POST", f"/seckill/{voucher}", user, timeout=timeout)
        code = document.get("code", "")
        order = document.get("order_id" if status == 409 else "id", "")
        self.history.append(Event(began, time.time(), "buy", user, voucher, instance, status, code, order))

    def reconcile(self, instance: int = 0, timeout: float = 3.0) -> int:
        voucher = self.vouchers[0]
        return self.stack.instances[instance].ask("POST", f"/admin/vouchers/{voucher}/reconcile", timeout=timeout)[0]

    def wait_dead(self, instance: int = 0, seconds: float = 8.0) -> bool:
        """Whether a failpoint has ended it."""
        one = self.stack.instances[instance]
        one.expected_exits.add(-signal.SIGKILL)
        deadline = time.monotonic() + seconds
        while one.alive() and time.monotonic() < deadline:
            time.sleep(0.02)
        return not one.alive()

    # ---- the run ----

    def prepare(self) -> None:
        fault, stack = self.fault, self.stack
        stack.prepare(fault.appendfsync, fresh_redis=fault.fresh_redis)
        stack.launch(fault.instances, fault.env, fault.first_env, fault.proxied)
        now = datetime.now(timezone.utc)
        for number in range(fault.vouchers):
            terms = {
                "title": f"Fault {fault.name}",
                "stock": fault.units,
                "price_cents": 1,
                "begin_at": (now - timedelta(hours=3)).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "end_at": (now + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
            last = stack.instances[-1]
            status, document = last.ask("POST", "/admin/vouchers", body=terms)
            if status != 201:
                raise Broken(f"no voucher: {status} {document}")
            self.vouchers.append(document["id"])

    def load_and_inject(self) -> int:
        """Returns how long after the fault the service was back, in ms."""
        fault = self.fault
        ports = [instance.port for instance in self.stack.instances]
        crowd = Crowd(ports, self.rng, self.history)
        crowd.start(self.vouchers, fault.seconds, fault.rate, fault.users, fault.spread, fault.opposite)
        try:
            time.sleep(fault.seconds * 0.3)
            fault.inject(self)
            if not self.healed_at:
                self.healed()
            self.restart_the_dead()
            return self.wait_until_back()
        finally:
            crowd.join()

    def restart_the_dead(self) -> None:
        for instance in self.stack.instances:
            if not instance.alive():
                instance.run()

    def wait_until_back(self) -> int:
        """Until a new user gets a definite answer from every instance; ms since the fault was healed."""
        n = 0
        for instance in self.stack.instances:
            deadline = time.monotonic() + BACK_S
            while True:
                n += 1
                user, voucher = f"back{instance.number}-{n}", self.vouchers[n % len(self.vouchers)]
                began = time.time()
                status, document = instance.ask("POST", f"/seckill/{voucher}", user)
                code = document.get("code", "")
                order = document.get("order_id" if status == 409 else "id", "")
                self.history.append(Event(began, time.time(), "buy", user, voucher, instance.number, status, code, order))
                if status == 201 or code == "SOLD_OUT":
                    break
                if time.monotonic() > deadline:
                    raise Broken(f"{instance.name} is not back within {BACK_S:.0f} s: {status} {code}")
                time.sleep(0.02)
        return int((time.monotonic() - self.healed_at) * 1000)

    def look(self) -> checker.World:
        rows = self.postgres.sql(
            "select voucher_id, id, user_id, status, coalesce(reason, '') from voucher_order;"
            "select 'held', voucher_id, user_id, id from held_order;"
            "select 'voucher', id, initial_stock, stock from seckill_voucher;"
            "select 'letters', count(*) from dead_letter where ended_at is null"
            " and (orders is null or exists (select from held_order h where h.letter = dead_letter.id));"
        )
        orders = [row for row in rows if row[0] in self.vouchers]
        held = [row for row in rows if row[0] == "held"]
        letters = int(next(row[1] for row in rows if row[0] == "letters"))
        vouchers = {}
        for row in rows:
            if row[0] != "voucher" or row[1] not in self.vouchers:
                continue
            id = row[1]
            pairs = self.redis.call("HGETALL", f"seckill:{{{id}}}:buyers")
            state = self.redis.call("HMGET", f"seckill:{{{id}}}:voucher", "state", "stock")
            vouchers[id] = checker.Voucher(
                id,
                int(row[2]),
                int(row[3]),
                [checker.Order(*order[1:]) for order in orders if order[0] == id],
                {one[2]: one[3] for one in held if one[1] == id},
                int(state[1] or -1),
                dict(zip(pairs[::2], pairs[1::2])),
                self.redis.call("XLEN", f"seckill:{{{id}}}:journal"),
                state[0] or "missing",
            )
        logs = [line for instance in self.stack.instances for line in instance.text().splitlines()]
        return checker.World(
            list(self.history),
            vouchers,
            letters,
            self.fault.letters,
            logs,
            [],
            self.leaks,
            self.fault.may_differ,
            lost_202=self.fault.lost_202,
        )

    def settle(self) -> dict[str, list[str]]:
        """Until nobody complains in two looks, or for long enough."""
        deadline, quiet = time.monotonic() + SETTLE_S, 0
        while True:
            complaints = checker.check(self.look())
            hopeless = complaints.keys() & {"the_audit_had_nothing_to_mend", "accepted_is_never_unknown"}
            quiet = 0 if complaints else quiet + 1
            if quiet >= 2 or hopeless or time.monotonic() > deadline:
                return complaints
            time.sleep(0.4)

    def look_for_leaks(self) -> None:
        for instance in self.stack.instances:
            if instance.fds_at_start and instance.fds() > instance.fds_at_start + 4:
                try:
                    wait_for("descriptors", lambda: instance.fds() <= instance.fds_at_start + 4, 6)
                except Broken:
                    self.leaks.append(f"{instance.name}: {instance.fds()} descriptors, {instance.fds_at_start} at start")

    def unexpected_exits(self) -> list[str]:
        return [
            f"{instance.name} ended with {code}"
            for instance in self.stack.instances
            for code in instance.exits
            if code not in instance.expected_exits
        ]


def run_fault(stack: Stack, fault: Fault, seed: int) -> Result:
    began, result = time.monotonic(), Result(fault)
    run = Run(stack, fault, seed)
    try:
        run.prepare()
        result.recovery_ms = run.load_and_inject()
        result.complaints = run.settle()
        run.look_for_leaks()
        stack.land()
        if run.unexpected_exits() or run.leaks:
            result.complaints["processes_are_well"] = run.unexpected_exits() + run.leaks
        if run.seen_meanwhile:
            result.complaints["seen_meanwhile"] = run.seen_meanwhile
    except NotInjectable as reason:
        result.ran, result.why = False, str(reason)
    except Broken as reason:
        result.complaints["the suite"] = [str(reason)]
        if run.seen_meanwhile:
            result.complaints["seen_meanwhile"] = run.seen_meanwhile
    finally:
        stack.land()
        stack.unmount()
    write_history(stack.folder / f"history-{fault.name}.jsonl", run.history)
    for event in run.history:
        if event.what == "buy":
            result.outcomes[event.outcome] = result.outcomes.get(event.outcome, 0) + 1
    result.seconds = time.monotonic() - began
    return result


def self_test() -> list[str]:
    """What is wrong with the verdicts: a known failure is one by the named assertion alone, and must not pass."""
    plain = Fault("0", "", lambda _: None)
    marked = Fault("0", "", lambda _: None, known="X1", known_by=("seen_meanwhile",))
    cases = [
        (Result(plain), "held", True),
        (Result(plain, complaints={"seen_meanwhile": ["x"]}), "BROKEN", False),
        (Result(marked, complaints={"seen_meanwhile": ["x"]}), "known X1", True),
        (Result(marked, complaints={"not_oversold": ["x"]}), "BROKEN", False),
        (Result(marked, complaints={"seen_meanwhile": ["x"], "not_oversold": ["x"]}), "BROKEN", False),
        (Result(marked), "unexpected pass", False),
    ]
    return [
        f"the verdict on {list(result.complaints)} of a row {result.fault.known or 'without a mark'} is {result.verdict}"
        for result, verdict, well in cases
        if not result.verdict.startswith(verdict) or result.well != well
    ]
