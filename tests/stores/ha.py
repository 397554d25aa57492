"""The stack of `./dev up --ha` loses each of its stores in a rush, planned and killed. loadtest/oversell is the crowd and
the judge: no 201 is lost, every 202 ends, the books balance. Printed: for how long no order became durable."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from stack import ROOT, Broken, wait_for

sys.path.append(str(ROOT / "loadtest"))

from lib.common import Failure, Postgres, environment  # noqa: E402

STATE = ROOT / ".dev"
STOCK, CONNECTIONS = 10_000_000, 16
WARM_S = 3.0  # the crowd buys for so long before the switch
CALM_S = 60  # after a switch, until everything stands as before
UNHURT_S = 2.0  # a lost standby may stop the sale for less


def dev(*words: str) -> None:
    done = subprocess.run([str(ROOT / "dev"), *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise Broken(f"./dev {' '.join(words)}: {(done.stderr or done.stdout)[-600:]}")


def hand(tool: str, *words: str) -> str:
    """One of the two scripts that `./dev up --ha` leaves for operators."""
    return subprocess.run([str(STATE / tool), *words], capture_output=True, text=True).stdout


def family_of(name: str) -> list[int]:
    """The process and all its children."""
    family = [int(words[1]) for words in map(str.split, (STATE / "pids").read_text().splitlines()) if words[0] == name]
    for parent in family:
        family += map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split())
    return family


def kill(name: str) -> None:
    """All of them at once, as the loss of its machine does."""
    family = family_of(name)
    for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped first: no parent sees a child die, nor starts it again
        for one in family:
            os.kill(one, number)


# ---- what there is ----


def nodes() -> dict[str, str]:
    """PostgreSQL's nodes with their states: reported and assigned, if they differ."""
    rows = [[cell.strip() for cell in line.split("|")] for line in hand("pg_autoctl", "show", "state").splitlines()]
    found = [row for row in rows if re.fullmatch(r"node-\d", row[0])]
    return {row[0]: row[-1] if row[-1] == row[-2] else f"{row[-2]} to {row[-1]}" for row in found}


def node_that_is(state: str) -> str:
    return next(name for name, its in sorted(nodes().items()) if its == state)


def master() -> str:
    """The Redis that the sentinels call the master."""
    port = hand("sentinel", "sentinel", "get-master-addr-by-name", "main").split()[1]
    return next(name for name in ("redis-1", "redis-2") if f"tls-port {port}" in (STATE / f"{name}.conf").read_text())


def whole() -> bool:
    """One primary and two standbys that keep up; one master, and a replica that follows it."""
    replica = hand("sentinel", "sentinel", "replicas", "main")
    return (
        sorted(nodes().values()) == ["primary", "secondary", "secondary"]
        and "master-link-status\nok" in replica
        and "flags\nslave\n" in replica
    )


# ---- switches: each returns what is wrong ----


def redis_planned() -> list[str]:
    old = master()
    if "OK" not in hand("sentinel", "sentinel", "failover", "main"):
        return ["the sentinels refuse"]
    wait_for("another master", lambda: master() != old, CALM_S)
    return []


def redis_killed() -> list[str]:
    old = master()
    kill(old)
    wait_for("another master", lambda: master() != old, CALM_S)
    return []


def postgres_planned() -> list[str]:
    old = node_that_is("primary")
    hand("pg_autoctl", "perform", "failover")
    return [f"{old} is still the primary"] if nodes().get(old) == "primary" else []


def postgres_killed() -> list[str]:
    old = node_that_is("primary")
    kill(old)
    wait_for("another primary", lambda: [n for n, its in nodes().items() if its == "primary" and n != old], CALM_S)
    return []


def standby_killed() -> list[str]:
    """Commits still wait for the other standby: none is on one machine alone."""
    kill(node_that_is("secondary"))
    time.sleep(WARM_S)
    [[names]] = Postgres(environment()["DATABASE_URL"]).rows("show synchronous_standby_names")
    return [] if names else ["with one standby lost, commits wait for none"]


def postgres_killed_asynchronous() -> list[str]:
    """The control: commits wait for no standby, and the standbys are behind. This loses 201s."""
    hand("pg_autoctl", "set", "formation", "number-sync-standbys", "0")
    for number in (1, 2, 3):
        hand("pg_autoctl", "set", "node", "replication-quorum", "--name", f"node-{number}", "false")
    stores = Postgres(environment()["DATABASE_URL"])
    wait_for("commits that wait for none", lambda: stores.rows("show synchronous_standby_names") == [[""]], CALM_S)
    old = node_that_is("primary")
    # Stopped there, and not in the standbys, whose sockets would still bring what was sent.
    senders = [pid for pid in family_of(old) if "walsender" in Path(f"/proc/{pid}/cmdline").read_text()]
    for pid in senders:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(WARM_S)
    wrong = [] if len(senders) == 2 else ["the standbys could not be held back"]
    kill(old)
    wait_for("another primary", lambda: [n for n, its in nodes().items() if its.endswith("primary") and n != old], CALM_S)
    return wrong


SWITCHES = {  # name: (what happens, seconds of the crowd, seconds that may pass without a durable order)
    "Redis, planned": (redis_planned, 15, 0),
    "Redis, killed": (redis_killed, 20, 0),
    "PostgreSQL, planned": (postgres_planned, 25, 0),
    "PostgreSQL, killed": (postgres_killed, 40, 0),
    "a standby killed": (standby_killed, 12, UNHURT_S),
}
CONTROL = "PostgreSQL, killed, with asynchronous standbys"


# ---- the rush ----


def switch(name: str) -> list[str]:
    happens, seconds, at_most_s = (SWITCHES | {CONTROL: (postgres_killed_asynchronous, 40, 0)})[name]
    stores = Postgres(environment()["DATABASE_URL"])
    newest = lambda: int(stores.rows("select coalesce(max(voucher_id), 0) from voucher_order")[0][0])
    before = newest()
    command = [str(ROOT / "loadtest/oversell"), "--stock", str(STOCK), "--users", "0", "--duration", str(seconds)]
    crowd = subprocess.Popen(
        command + ["--connections", str(CONNECTIONS), "--settle-timeout", str(CALM_S)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    try:
        wait_for("a sale", lambda: newest() > before)
        time.sleep(WARM_S)
        wrong = happens()
        output, _ = crowd.communicate(timeout=seconds + 3 * CALM_S)
    finally:
        crowd.kill()
        crowd.wait()
    voucher = newest()
    [[orders, refused, gap]] = stores.rows(
        "select count(*), count(*) filter (where status = 'refused'), coalesce(max(created_at - before), 0)"
        " from (select status, extract(epoch from created_at) created_at,"
        "  lag(extract(epoch from created_at)) over (order by created_at) before"
        f" from voucher_order where voucher_id = {voucher}) o"
    )
    told = {line[:24].strip(): line[24:].strip() for line in output.splitlines()}
    print(f"    {name}: none durable for {float(gap):.1f} s; {orders} orders, {refused} of them refused; "
          + ", ".join(f"{what} {told.get(what, '?')}" for what in ("placed (201)", "accepted (202)", "errors")), flush=True)
    if crowd.returncode != 0:
        wrong += [f"{name}: {line}" for line in output.splitlines() if "WRONG" in line] or [f"{name}: {output[-400:]}"]
    if at_most_s and float(gap) > at_most_s:
        wrong.append(f"{name}: none durable for {float(gap):.1f} s")
    return wrong


def run(_binary: Path) -> list[str]:
    """./dev up --ha has the binary of build/."""
    if STATE.exists():
        raise Broken("there is a stack; ./dev down ends it")
    wrong = []
    try:
        dev("up", "--ha")
        for name in SWITCHES:
            wait_for("a whole stack", whole, CALM_S)
            wrong += switch(name)
            dev("up", "--ha")  # starts again what was killed
        wait_for("a whole stack", whole, CALM_S)
        lost = [line for line in switch(CONTROL) if "201s without a row" in line]
        print(f"    as it must: {lost[0]}" if lost else "    nothing was noticed", flush=True)
        return wrong if lost else wrong + [f"{CONTROL}: no lost 201 was noticed"]
    except Failure as failure:
        raise Broken(str(failure)) from failure
    finally:
        dev("down")
