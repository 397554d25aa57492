"""Checks the stores and the processes. Each assertion is a function of a World and returns complaints."""

from __future__ import annotations

import re

from world import World


def rows_are_right(world: World) -> list[str]:
    """P1, P2, and what else PostgreSQL's rows say of each other (tests/judge.sql, as in the simulation)."""
    return world.rows_wrong


def every_unit_is_somewhere(world: World) -> list[str]:
    """P4: each unit is in a live order, held, for sale, or refunded and kept. This also covers purchases with an unknown
    outcome (P7): they end as an order or as none, never as an order whose unit is for sale, too."""
    complaints = []
    for v in world.vouchers.values():
        there = v.live_units + v.gone_units + v.held_units + v.redis_stock
        if v.retired:
            some = v.redis_stock >= 0 and not world.retirement_is_lost(v)
            complaints += [f"{v.redis_stock} for sale of a retired voucher"] if some else []
        elif there != v.units:
            parts = f"{v.live_units} live + {v.gone_units} kept + {v.held_units} held + {v.redis_stock} for sale"
            complaints.append(f"{parts} of {v.units} units")
        if v.state != v.due_state and not world.retirement_is_lost(v):
            complaints.append(f"the voucher is {v.state}, and {v.due_state} in PostgreSQL")
    return complaints


def units_are_held_meanwhile(world: World) -> list[str]:
    """P7, at each moment at which Redis sold: a unit is for sale or somebody's, and an unknown one is held. Without
    this check a unit returned too early would be noticed only if somebody bought it quickly enough."""
    complaints = [] if world.samples else ["Redis was never read: this assertion saw nothing"]
    for sample in [] if world.may_differ else world.samples:
        units = world.vouchers[sample.voucher].units_most
        if sample.state == "open" and (sample.stock < 0 or sample.stock + sample.buyers > units):
            complaints.append(f"{sample.stock} for sale and {sample.buyers} buyers of {units} units: {sample}")
    if world.samples and not any(sample.state == "open" for sample in world.samples):
        complaints.append("no voucher was seen open at any moment: this assertion saw nothing")
    return complaints


def buyers_are_the_orders(world: World) -> list[str]:
    """The buyers in Redis match PostgreSQL's orders. Redis has forgotten those of a retired voucher."""
    complaints = []
    for v in world.vouchers.values():
        due = v.buyers if world.retirement_is_lost(v) else v.kept_in_redis
        wrong = {u for u in due.keys() | v.buyers.keys() if due.get(u) != v.buyers.get(u)}
        if wrong:
            some = sorted(wrong)[0]
            complaints.append(f"{len(wrong)} buyers differ, as {some}: {v.buyers.get(some)} is {due.get(some)}")
    return complaints


def journal_is_empty(world: World) -> list[str]:
    left = [v for v in world.vouchers.values() if v.journal != 0 and not world.retirement_is_lost(v)]
    return [f"{v.journal} entries left in the journal" for v in left]


def letters_are_accounted_for(world: World) -> list[str]:
    if world.letters == world.letters_expected:
        return []
    return [f"{world.letters} dead letters, {world.letters_expected} expected"]


def nothing_is_foreign(world: World) -> list[str]:
    """All rows and keys belong to the run's vouchers, except those that disappear by themselves."""
    return world.foreign


def rebuilds_are_few(world: World) -> list[str]:
    """A voucher rebuilt again and again settles in the end, but does not sell meanwhile."""
    rebuilds = sum(v.rebuilds for v in world.vouchers.values())
    if rebuilds <= world.rebuilds_most:
        return []
    return [f"{rebuilds} rebuilds, {world.rebuilds_most} at most for this fault"]


def processes_are_well(world: World) -> list[str]:
    bad = [line for line in world.logs if "level=fatal" in line or "Sanitizer" in line or "runtime error:" in line]
    return world.exits + world.leaks + bad


def the_audit_had_nothing_to_mend(world: World) -> list[str]:
    """A difference that only the audit repaired means that another check missed it. Exceptions: units taken away by an
    operator leave Redis first, and if that call's answer is lost only the audit may find that they are not gone. If a
    granted order's entry was removed by hand and its holder was killed, or did not read Redis's answer, only its buyer
    is left."""
    differ = [line for line in world.logs if "books differ" in line]
    found = [line for line in differ if not _has_too_few(line, world.taken) and not _has_lost_entries(line, world.cut)]
    return [] if world.may_differ else found[:1]


BOOKS = re.compile(r"voucher=(\d+) .*stock=(\d+)/(\d+) buyers=(\d+)/(\d+)")


def _has_too_few(line: str, taken: set[str]) -> bool:
    """Whether Redis has fewer units than PostgreSQL of one of these vouchers."""
    seen = BOOKS.search(line)
    return bool(seen) and seen[1] in taken and int(seen[2]) < int(seen[3]) and seen[4] == seen[5]


def _has_lost_entries(line: str, cut: set[str]) -> bool:
    """Whether Redis has buyers of one of these vouchers, and took their units, that PostgreSQL does not know."""
    seen = BOOKS.search(line)
    return bool(seen) and seen[1] in cut and int(seen[2]) < int(seen[3]) and int(seen[4]) > int(seen[5])
