"""Several PostgreSQL servers share the vouchers, and one of them is away, or comes back older than it was: 65."""

from __future__ import annotations

import shutil
import time

from driver import Run
from fault import Fault
from rows_tools import sells, within
from stack import Broken, PostgresServer, wait_for

RESTORED = "the shard was restored from an older copy"
NOTICED_S = 8.0  # the back-off of a link, and a beat
SOLD_S = 6.0  # after a shard is back: the back-off of a link, and that of the writer, are 2 s at most
PAGES = 50
SMALL = {"SECKILL_ORDERS_MAX": "128", "SECKILL_BATCH_MAX": "32"}
SMALLER = {**SMALL, "SECKILL_ORDERS_MAX": "64"}  # full before the links to a shard that hangs are dropped


def vouchers_of(run: Run, server: PostgresServer) -> list[str]:
    rows = [row[0] for row in server.sql("select id from seckill_voucher")]
    return [voucher for voucher in run.vouchers if voucher in rows]


def split(run: Run) -> tuple[list[str], list[str]]:
    """The vouchers of both shards."""
    first, second = (vouchers_of(run, server) for server in run.stack.shards)
    if not first or not second or len(first) + len(second) != len(run.vouchers):
        raise Broken(f"{len(first)} and {len(second)} vouchers on the shards, of {len(run.vouchers)}")
    return first, second


def answers(run: Run, vouchers: list[str], since: float, *statuses: int) -> int:
    """How many purchases of these vouchers that began since then were answered so."""
    events = [e for e in list(run.history) if e.what == "buy" and e.voucher in vouchers and e.began > since]
    return sum(e.status in statuses for e in events)


def rejected_for_room(run: Run, since: float) -> bool:
    """Whether each instance has rejected a purchase since then, because it has as many orders as it may."""
    full = {e.instance for e in list(run.history) if e.began > since and e.code == "OVERLOADED"}
    return len(full) == len(run.stack.instances)


def is_told_incomplete(run: Run, shard: int) -> None:
    """Lists say that they are incomplete, and /readyz names the shard. Buyers see all vouchers, from the catalogue."""
    one = run.first
    status, document = one.ask("GET", "/readyz")
    if status != 200 or document.get("shards_away") != [shard]:
        run.seen_meanwhile.append(f"/readyz answers {status} {document}")
    status, document = one.ask("GET", "/vouchers?limit=99")
    if status != 200 or document.get("stale") is not True or "complete" in document:
        run.seen_meanwhile.append(f"/vouchers answers {status}, stale {document.get('stale')} and complete {document.get('complete')}")
    for path, user in (("/orders", "nobody"), ("/admin/vouchers", ""), ("/admin/events", "")):
        status, document = one.ask("GET", path, user)
        if status != 200 or document.get("complete") is not False:
            run.seen_meanwhile.append(f"{path} answers {status} and complete {document.get('complete')}")


def others_sell(run: Run, here: list[str], away: list[str], what: str) -> None:
    """The first shard sells at each instance. The second does not, and its vouchers and the lists say so."""
    since = time.time()
    sells(run, here[0], SOLD_S, what)
    is_told_incomplete(run, 1)
    for n in range(len(run.stack.instances)):
        run.buy(f"away-{what}-{n}".replace(" ", "-"), n, voucher=away[0])
    if answers(run, away, since, 201):
        run.seen_meanwhile.append("an order of a shard that is away is confirmed")


def killed(run: Run) -> None:
    """The second shard's machine dies in the rush: 202, then 503, while the first one sells."""
    here, away = split(run)
    run.stack.shards[1].kill()
    since = time.time()
    wait_for("accepted", lambda: answers(run, away, since, 202))
    wait_for("full", lambda: answers(run, away, since, 503))
    others_sell(run, here, away, "without the other shard")
    run.stack.shards[1].run()
    sells(run, away[0], SOLD_S, "the shard that is back")


def hangs(run: Run) -> None:
    """The second shard hangs, so that its connections stay: its orders leave room for those of the first one."""
    here, away = split(run)
    since = time.time()
    run.stack.shards[1].hang()
    try:
        wait_for("full", lambda: rejected_for_room(run, since))
        sells(run, here[0], SOLD_S, "beside a shard that hangs")
    finally:
        run.stack.shards[1].go_on()  # else the suite would wait for it
    sells(run, away[0], SOLD_S, "the shard that goes on")


def restored(run: Run) -> None:
    """The second shard comes back as a copy of a moment ago, as after a restore without its log. Each instance notices,
    one that starts then, too. Its vouchers stop, until its own data is back."""
    here, away = split(run)
    server = run.stack.shards[1]
    server.base_backup("copy")
    since = time.time()
    wait_for("orders that the copy lacks", lambda: answers(run, away, since, 201))
    time.sleep(2.5)  # at least one beat more
    server.kill()
    data, own = server.dir / "data", server.dir / "own"
    data.rename(own)
    (server.dir / "copy").rename(data)
    server.run()
    for instance in run.stack.instances:
        within(run, f"{instance.name} notices", lambda one=instance: RESTORED in one.text(), NOTICED_S)
    others_sell(run, here, away, "beside an old copy")
    again = run.stack.instances[1]
    again.end(15)
    again.run()
    within(run, "a new one notices", lambda: RESTORED in again.text() and again.ready(), NOTICED_S)
    others_sell(run, here, away, "beside it after a start")
    server.kill()
    shutil.rmtree(data)
    own.rename(data)
    server.run()
    sells(run, away[0], SOLD_S, "the shard with its own data")


ROWS = [
    Fault(
        "65a", "a shard killed in the rush", killed,
        shards=2, vouchers=6, units=1000, users=4000, seconds=6.0, env=SMALL, unknown=0.9,
    ),
    Fault(
        "65c", "a shard hangs in the rush", hangs,
        shards=2, vouchers=6, units=1000, users=4000, seconds=6.0, env=SMALLER, unknown=0.9,
    ),
    Fault(
        "65b", "a shard restored from an older copy", restored,
        shards=2, vouchers=6, units=1000, users=4000, seconds=10.0, unknown=0.9,
    ),
]
