"""Shared by the rows: separate vouchers, separate buyers, and bounded waiting."""

from __future__ import annotations

import itertools
import re
import signal
import struct
import subprocess
import threading
import time
import urllib.request
from datetime import datetime, timedelta, timezone
from pathlib import Path

from crowd import Crowd, Event
from driver import Run
from machine import Deadline
from stack import ADMIN_TOKEN, Broken, Instance, wait_for

HOUR_S = 3600.0


def instant(seconds: float) -> str:
    """RFC 3339, this many seconds from now."""
    return (datetime.now(timezone.utc) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def terms(run: Run, units: int, begin_s: float = -3 * HOUR_S, end_s: float = 24 * HOUR_S, title: str = "") -> dict:
    return {
        "title": title or f"Fault {run.fault.name}",
        "stock": units,
        "price_cents": 1,
        "orders_per_user": run.fault.orders_most,
        "begin_at": instant(begin_s),
        "end_at": instant(end_s),
    }


def open_voucher(run: Run, units: int, begin_s: float = -3 * HOUR_S, end_s: float = 24 * HOUR_S, **more) -> str:
    """A voucher besides the crowd's, judged the same. `more`: its own terms."""
    last = run.stack.instances[-1]
    wait_for("an instance ready", last.ready)
    body, headers = terms(run, units, begin_s, end_s) | more, run.voucher_key()
    status, document = last.ask("POST", "/admin/vouchers", body=body, headers=headers)
    if status != 201:
        raise Broken(f"no voucher: {status} {document}")
    run.vouchers.append(document["id"])
    return document["id"]


def insert_vouchers(run: Run, count: int, units: int, epoch: int = 0) -> list[str]:
    """Many at once, bypassing the service, so not in Redis yet. `epoch`: how often they have been loaded."""
    rows = run.postgres.sql(
        "with drawn as (select nextval(pg_get_serial_sequence('seckill_voucher', 'id')) as id, number, shards"
        f" from seckill_shard, generate_series(1, {count} * shards * least(shards, 2))),"
        f" own as (select id from drawn where shard_of_slot(slot_of(id::text), shards) = number order by id limit {count}),"
        " made as (insert into seckill_voucher (id, title, price_cents, orders_per_user, begin_at, end_at, created_at)"
        f" overriding system value select id, 'Fault {run.fault.name}', 1, {run.fault.orders_most},"
        " now() - interval '3 hours', now() + interval '1 day', now() - interval '1 minute' from own returning id)"
        " insert into voucher_stock (voucher_id, tag, slot, units, stock, epoch)"
        f" select id, id::text, slot_of(id::text), {units}, {units}, {epoch} from made returning voucher_id"
    )
    return [row[0] for row in rows]


def key(voucher: str, part: str) -> str:
    return f"seckill:{{{voucher}}}:{part}"


def is_open(run: Run, voucher: str) -> bool:
    return run.redis.call("HGET", key(voucher, "voucher"), "state") == "open"


class Buyers(Crowd):
    """They read no order before the end: with a thousand vouchers, each read queries all of them in Redis."""

    async def _read(self, bought: Event) -> None:
        self.pending.clear()


def crowd(run: Run, vouchers: list[str], seconds: float, rate: int = 300, users: int = 700) -> Crowd:
    """A separate crowd of the row, started; the caller joins it."""
    kind = Buyers if len(vouchers) > 100 else Crowd
    one = kind([instance.port for instance in run.stack.instances], run.rng, run.history)
    one.start(vouchers, seconds, rate, users, False, False)
    return one


def buy(
    run: Run, voucher: str, user: str, instance: int = 0, later: bool = False, timeout: float = 4.0, quantity: int = 1,
    key: str = "",
) -> Event:
    """One request, kept in the history. `later`: with Prefer: respond-async."""
    event = Event(time.time(), 0, "buy", user, voucher, instance, quantity=quantity, key=key)
    headers = ({"Prefer": "respond-async"} if later else {}) | ({"Idempotency-Key": key} if key else {})
    path, body = f"/seckill/{voucher}", {"quantity": quantity} if quantity > 1 else None
    event.hear(*run.stack.instances[instance].ask("POST", path, user, body, timeout, headers))
    run.history.append(event)
    return event


def read_order(run: Run, bought: Event, instance: int = 0) -> Event:
    """Reads the URL of an accepted order, and keeps it in the history."""
    event = Event(time.time(), 0, "read", bought.user, bought.voucher, instance, order=bought.order)
    event.hear(*run.stack.instances[instance].ask("GET", f"/orders/{bought.order}", bought.user))
    run.history.append(event)
    return event


def accepted(run: Run, voucher: str, user: str, instance: int = 0) -> Event:
    """An order that is accepted and not committed yet, which the caller must ensure."""
    deadline = Deadline(3)
    while (event := buy(run, voucher, user, instance, later=True)).status not in (202, 409):
        if deadline.passed():
            raise Broken(f"no 202: {event.status} {event.code}")
        time.sleep(0.05)
    return event


def lock_row(run: Run, voucher: str, seconds: float) -> subprocess.Popen:
    """Another transaction locks the row of the voucher."""
    script = f"begin; select from voucher_stock where voucher_id = {voucher} for update; select pg_sleep({seconds}); commit;"
    command = run.postgres.psql("seckill", "-c", script)
    holder = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    waits = "select count(*) > 0 from pg_stat_activity where query like '%for update%' and wait_event = 'PgSleep'"
    wait_for("row locked", lambda: run.postgres.sql(waits) == [["t"]])
    return holder


def release(run: Run, what: str = "begin; lock table") -> None:
    """Ends early what hold_orders, or with its text lock_row, began."""
    run.postgres.sql(f"select pg_terminate_backend(pid) from pg_stat_activity where query like '{what}%'")


def within(run: Run, what: str, condition, seconds: float) -> bool:
    """A time limit that the row itself asserts, on a machine that is on time."""
    try:
        wait_for(what, condition, seconds)
        return True
    except Broken as late:
        run.miss(str(late))
        return False


def sells(run: Run, voucher: str, seconds: float, what: str) -> bool:
    """Each instance sells it to a new user, with the row committed, within this time."""
    numbers, name = itertools.count(), re.sub("[^a-z0-9]", "-", what.lower())
    return all(
        within(
            run,
            f"{what}: sold by instance {n}",
            lambda: buy(run, voucher, f"new-{name}-{n}-{next(numbers)}", n).status == 201,
            seconds,
        )
        for n, instance in enumerate(run.stack.instances)
        if instance.alive()
    )


def set_clock(file: Path, seconds: int) -> None:
    """Sets the clock of the processes that use it. In place, since the file is mapped."""
    with open(file, "r+b", buffering=0) as clock:
        clock.write(struct.pack("q", seconds))


def kill(run: Run, instance: int = 0) -> None:
    one = run.stack.instances[instance]
    one.expected_exits.add(-signal.SIGKILL)
    one.end(signal.SIGKILL)


def restart(instance: Instance, env: dict[str, str] | None = None) -> None:
    instance.end(signal.SIGTERM)
    instance.run(env)
    instance.wait_ready()


ENTRY_BY_HAND = """
local epoch = redis.call('HGET', KEYS[1], 'epoch')
redis.call('HINCRBY', KEYS[1], 'stock', -1)
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
local entry = redis.call('XADD', KEYS[3], '*', 'epoch', epoch, 'orders', ARGV[2] .. ' ' .. ARGV[1], 'session', ARGV[3])
redis.call('HSET', KEYS[1], 'last', entry)
"""


def entry_by_hand(run: Run, voucher: str, user: str, order: str, session: str) -> None:
    """A granted order in the journal that no instance holds, whatever session it names."""
    keys = [key(voucher, part) for part in ("voucher", "buyers", "journal")]
    run.redis.call("EVAL", ENTRY_BY_HAND, 3, *keys, user, order, session)
    run.unseen[voucher] = run.unseen.get(voucher, 0) + 1


def counter(instance: Instance, name: str) -> int:
    who = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    request = urllib.request.Request(f"http://127.0.0.1:{instance.admin_port}/metrics", headers=who)
    with urllib.request.urlopen(request, timeout=5) as answer:
        return sum(int(n) for n in re.findall(rf"^{name} (\d+)$", answer.read().decode(), re.M))


def recoveries(instance: Instance) -> int:
    """How often it has settled entries that no instance held, or its own that it did not know."""
    return instance.text().count("recovering journal entries")


def takeovers(instance: Instance) -> int:
    """How many entries of others it has settled."""
    found = re.findall(r'msg="recovering journal entries" .*entries=(\d+) orphans=(\d+)', instance.text())
    return sum(int(entries) - int(orphans) for entries, orphans in found)


def session_of(instance: Instance) -> str:
    """The session of its first reactor."""
    return re.findall('msg="session taken" session=([0-9a-f-]+)', instance.text())[-1]


class Background(threading.Thread):
    """What it finds broken is raised where it is awaited."""

    def __init__(self, work):
        super().__init__(target=self._try, args=(work,), daemon=True)
        self.broken: Broken | None = None

    def _try(self, work) -> None:
        try:
            work()
        except Broken as broken:
            self.broken = broken

    def join(self, timeout: float | None = None) -> None:
        super().join(timeout)
        if self.broken is not None:
            raise self.broken


def in_background(work) -> threading.Thread:
    thread = Background(work)
    thread.start()
    return thread


def another(run: Run, env: dict[str, str]) -> Instance:
    """An instance besides those of the crowd, started."""
    one = Instance(90, run.stack.folder, run.stack.binary, run.stack.store_urls(False) | env)
    run.stack.others.append(one)  # ends with the row, whatever becomes of it
    one.run()
    return one


def clock_env(run: Run, file: Path) -> dict[str, str]:
    """The environment with which a process uses the clock in `file`."""
    library = file.with_suffix(".so")
    source = Path(__file__).with_name("clock.c")
    done = subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], capture_output=True, text=True)
    if done.returncode != 0:
        raise Broken(f"clock.c: {done.stderr}")
    file.write_bytes(struct.pack("q", 0))
    return {"LD_PRELOAD": str(library), "CLOCK_FILE": str(file)}


def fill(file: Path) -> None:
    try:
        with open(file, "wb", buffering=0) as out:
            while True:
                out.write(b"x" * 4096)
    except OSError:
        pass
