"""A row of the table, the terms of its run, and its result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable

from life import Habits

# Unless its row sets otherwise, the crowd of each fault pays, cancels and refunds.
USUAL = Habits(moves=0.25, keyed=0.1)
PLAIN = Habits()  # for rows that rely on effects of moves and repeats, above all on corrections
# What another program on the machine may also break; and by which part of a row's time the machine may be late.
TIMELY = {"the suite", "unknowns_are_few"}
LATE_PART, IN_TIME = 0.1, {"seen_meanwhile", "expiry_is_in_time"}
AMOUNTS = {"accepted_is_mostly_confirmed"}  # more orders wait on a late machine, so a loss takes more of them


@dataclass(frozen=True)
class Terms:
    """How the suite runs, for all faults."""

    full: bool = False  # each fault in its full size
    sanitized: bool = False  # a slow build: memory is not compared, and shares of time mean less
    judges_time: bool = True  # whether unknown outcomes are limited; not on a machine busy with other things


@dataclass(frozen=True)
class Fault:
    """One row of the table. `inject` runs while the crowd buys, and repairs what it breaks."""

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
    habits: Habits = USUAL
    orders_most: int = 20  # of a user of one voucher
    late_s: float = 0.0  # how late an order may expire during the fault; 0: not judged
    spread: bool = False
    opposite: bool = False
    proxied: bool = False
    appendfsync: str = "always"
    env: dict[str, str] = field(default_factory=dict)
    first_env: dict[str, str] = field(default_factory=dict)
    may_differ: bool = False  # the fault itself makes the books differ, and the audit repairs them
    letters: int = 0
    fresh_redis: bool = False
    standby: bool = False  # a synchronous standby; the instances know both servers
    shards: int = 1  # PostgreSQL servers that share the vouchers
    sentinels: bool = False  # a replica of Redis, and three sentinels, which the instances ask
    replicas: int = 0  # of each master of a Redis Cluster, which is this row's own; 0: Redis is no such cluster
    liars: int = 0  # sentinels in addition, which name the replica
    refused_202: int = 0  # accepted orders that may end as refused, where something is lost
    rebuilds: int = 0  # rebuilds that the fault may cause, beyond each voucher's first warm-up
    unknown: float = 0.05  # share of purchases whose outcome may be unknown
    known: str = ""  # the release that will fix it: until then the row is expected to fail
    known_by: tuple[str, ...] = ()  # by exactly these assertions
    lost_202: int = 0  # accepted orders that may have no end: two faults at once took both places of them
    given_up: int = 0  # accepted orders that an ending instance may refuse without asking Redis for their units
    full: bool = False  # with --all only
    alone: bool = False  # its time limits are so short that no other row may run beside it

    def mark_s(self) -> float:
        """How long an instance may cache that a voucher is sold out, and some slack."""
        settings = self.env | self.first_env
        return int(settings.get("SECKILL_SOLD_OUT_MARK_MS", 200)) / 1000 + 0.1


@dataclass
class Result:
    fault: Fault
    ran: bool = True
    why: str = ""
    complaints: dict[str, list[str]] = field(default_factory=dict)
    recovery_ms: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    measured: dict[str, float] = field(default_factory=dict)  # the values that the row's limits apply to
    too_late: list[str] = field(default_factory=list)  # the missed time limits in seen_meanwhile
    machine_late: float = 0.0  # the share of its time by which the machine was late

    @property
    def held(self) -> bool:
        return self.ran and not self.complaints

    @property
    def shows_nothing(self) -> bool:
        """Whether to try again. Either the fault itself could not be injected, which proves nothing about a promise; or
        only time limits were missed, or more was lost than a row expects, on a machine that was later than they allow
        for."""
        only_late = self.machine_late > LATE_PART and self.complaints.get("seen_meanwhile", []) == self.too_late
        late = (IN_TIME | AMOUNTS if self.fault.refused_202 else IN_TIME) if only_late else set()
        return bool(self.complaints) and set(self.complaints) <= TIMELY | late

    @property
    def as_known(self) -> bool:
        """Whether it fails as its row expects."""
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
            "seconds": round(self.seconds, 1),
            "recovery_ms": self.recovery_ms if self.ran else None,
            "requests": sum(self.outcomes.values()),
            "machine_late": round(self.machine_late, 3),
            **self.measured,
            **{name: self.outcomes.get(name, 0) for name in ("ok", "refused", "unknown")},
            "why": self.why or self.complaints,
        }


def self_test() -> list[str]:
    """Self-test of the verdicts: a known failure fails by the named assertion alone, and must not pass."""
    plain = Fault("0", "", lambda _: None)
    marked = Fault("0", "", lambda _: None, known="X1", known_by=("seen_meanwhile",))
    cases = [
        (Result(plain), "held", True),
        (Result(plain, complaints={"seen_meanwhile": ["x"]}), "BROKEN", False),
        (Result(marked, complaints={"seen_meanwhile": ["x"]}), "known X1", True),
        (Result(marked, complaints={"rows_are_right": ["x"]}), "BROKEN", False),
        (Result(marked, complaints={"seen_meanwhile": ["x"], "rows_are_right": ["x"]}), "BROKEN", False),
        (Result(marked), "unexpected pass", False),
    ]
    loses, more = Fault("0", "", lambda _: None, refused_202=1), {"accepted_is_mostly_confirmed": ["x"]}
    late = {"seen_meanwhile": ["sold: not within 1.5 s"]}
    shown = [
        (Result(plain, complaints={"the suite": ["x"]}), True),
        (Result(plain, complaints={"the suite": ["x"], "rows_are_right": ["x"]}), False),
        (Result(plain, complaints=late, too_late=late["seen_meanwhile"]), False),
        (Result(plain, complaints=late, too_late=late["seen_meanwhile"], machine_late=0.3), True),
        (Result(plain, complaints={"seen_meanwhile": ["x", "y"]}, too_late=["x"], machine_late=0.3), False),
        (Result(loses, complaints=more), False),
        (Result(loses, complaints=more, machine_late=0.3), True),
        (Result(plain, complaints=more, machine_late=0.3), False),
        (Result(plain), False),
    ]
    return [f"{one.complaints} shows nothing: {not due}" for one, due in shown if one.shows_nothing != due] + [
        f"the verdict on {list(result.complaints)} of a row {result.fault.known or 'without a mark'} is {result.verdict}"
        for result, verdict, well in cases
        if not result.verdict.startswith(verdict) or result.well != well
    ]
