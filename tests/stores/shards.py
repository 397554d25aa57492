"""Two PostgreSQL servers share the vouchers: both sell, lists and the feed are merged, one is killed in the rush, and one
is restored from an older copy. The fault suite's checker judges the books of both together."""

from __future__ import annotations

import os
import shutil
import subprocess
import time

import checker
from driver import Run, run_fault
from fault import Fault, Result
from machine import Deadline
from rush import voucher_of
from rows_shards import RESTORED, ROWS, split
from stack import ROOT, Broken, PostgresServer, Shards, Stack, wait_for

VOUCHERS = 6


def read_pages(run: Run, path: str, name: str, user: str, cursor: str) -> tuple[list[dict], str]:
    """All rows of a list, two a page, and what is wrong with a page."""
    rows, more = [], ""
    for _ in range(1000):
        status, page = run.first.ask("GET", f"{path}?limit=2{more}", user)
        if status != 200 or page.get("complete") is False:
            return rows, f"{path} answers {status} and complete {page.get('complete')}"
        rows += page[name]
        if not page.get("next") or (cursor == "after" and not page[name]):
            return rows, ""
        more = f"&{cursor}={page['next']}"
    return rows, f"{path} has no end"


def every_page(run: Run, path: str, name: str, user: str = "", cursor: str = "cursor") -> list[dict]:
    """A list with an incomplete page is read again: on a slow machine a link may be away for a moment."""
    deadline = Deadline(20)
    while True:
        rows, wrong = read_pages(run, path, name, user, cursor)
        if not wrong:
            return rows
        if deadline.passed():
            run.seen_meanwhile.append(wrong)
            return rows
        time.sleep(0.2)


def same(run: Run, what: str, found: list, due: list) -> None:
    if found != due:
        run.seen_meanwhile.append(f"{what}: {len(found)} rows, {len(due)} are due: {found[:3]} and {due[:3]}")


def merged(run: Run) -> None:
    """Both shards sell; each list has the rows of both, each row once, the newest first."""
    first, second = split(run)
    for voucher in run.vouchers:
        run.buy("of-all", 0, 5.0, voucher)
    own = "select id from voucher_order where user_id = 'of-all'"
    wait_for("the orders of a user", lambda: len(run.postgres.sql(own)) == VOUCHERS)
    ids = sorted(map(int, first + second), reverse=True)
    for path in ("/vouchers", "/admin/vouchers"):
        same(run, path, [int(row["id"]) for row in every_page(run, path, "vouchers")], ids)
    orders = [row["id"] for row in every_page(run, "/orders", "orders", "of-all")]
    same(run, "/orders", orders, sorted((row[0] for row in run.postgres.sql(own)), reverse=True))
    if len(orders) != VOUCHERS:
        run.seen_meanwhile.append(f"{len(orders)} orders of a user of {VOUCHERS} vouchers")
    for order in orders:
        if run.first.ask("GET", f"/orders/{order}", "of-all")[0] != 200:
            run.seen_meanwhile.append(f"{order} is not found")
    events = every_page(run, "/admin/events", "events", cursor="after")
    names = [event["id"] for event in events]
    if len(set(names)) != len(names):
        run.seen_meanwhile.append("two events have one id")
    for _, page in (run.first.ask("GET", "/admin/events?last=10"), run.first.ask("GET", "/admin/events?last=10")):
        for event in page["events"]:
            if event["id"] not in names and len(names) > 2:
                names.append(event["id"])  # moved meanwhile


class Controlled(Run):
    """Before the stack is gone: the checker must notice an order that one of the shards has lost."""

    def ask_at_the_end(self) -> dict[str, list[str]]:
        complaints = super().ask_at_the_end()
        if not complaints:
            server = self.stack.shards[1]
            lost = server.sql("select id from voucher_order where status = 'paid' limit 1")[0][0]
            server.sql(f"create table kept as select * from voucher_order where id = '{lost}';"
                       f" delete from voucher_order where id = '{lost}'")
            if not checker.check(self.read_world()):
                self.seen_meanwhile.append("control: the checker did not notice that a shard lost an order")
            server.sql("insert into voucher_order select * from kept; drop table kept")
        return complaints


def judged(result: Result) -> list[str]:
    wrong = [f"{name}: {some[0]}" for name, some in result.complaints.items()]
    print(f"    {result.fault.title}: {result.outcomes}, back after {result.recovery_ms} ms")
    return [] if result.held else wrong or [result.why]


def said(stack: Stack, *command: str, env: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run([str(stack.binary), *command], env=os.environ | stack.store_urls(False) | env,
                          capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def misfits(stack: Stack) -> list[str]:
    """A database in another place is found by --check, refused by --migrate while it has vouchers, and by a start."""
    wrong = []
    urls = [server.url("seckill") for server in stack.shards]
    owners = [server.url("owner") for server in stack.shards]
    file, whole = stack.folder / "swapped", "fail postgresql shard: the database is shard 1 of 2, not 0 of 2"
    listen = {"SECKILL_LISTEN": "127.0.0.1:0"}
    status, text = said(stack, "--check", env=listen)
    if "ok   postgresql shard" not in text or text.count("ok   postgresql schema") != 2:
        wrong.append(f"--check does not name both shards: {text[-800:]}")
    file.write_text("\n".join(reversed(urls)))
    status, text = said(stack, "--check", env={"SECKILL_SHARDS": str(file)})
    if status != 2 or whole not in text:
        wrong.append(f"--check does not see that the shards are swapped: {status} {text[-800:]}")
    status, text = said(stack, env=listen | {"SECKILL_SHARDS": str(file)})
    if status != 1 or "not the database that belongs here" not in text:
        wrong.append(f"it starts with swapped shards: {status} {text[-800:]}")
    own = os.environ | {"SECKILL_DATABASE_URL": urls[0]} | listen
    own["SECKILL_REDIS_URL"] = stack.store_urls(False)["SECKILL_REDIS_URL"]
    own.pop("SECKILL_SHARDS", None)
    done = subprocess.run([str(stack.binary)], env=own, capture_output=True, text=True, timeout=60)
    if done.returncode != 1:
        wrong.append("it starts with one shard of two as its only database")
    file.write_text("\n".join(reversed(owners)))
    status, text = said(stack, "--migrate", env={"SECKILL_SHARDS": str(file)})
    if status == 0 or "it has vouchers, or instances are connected" not in text:
        wrong.append(f"--migrate renumbers shards that have vouchers: {status} {text[-800:]}")
    return wrong


def stays(stack: Stack) -> list[str]:
    """A shard that is away since the start comes back as another one: the instance goes on with the others."""
    wrong, server = [], stack.shards[1]
    server.sql("update seckill_shard set number = 0")
    server.kill()
    stack.launch(1, {}, {}, False)
    one = stack.instances[0]
    server.run()
    wait_for("a misfit", lambda: "not the database that belongs here" in one.text())
    time.sleep(2)  # an end takes no longer
    if not one.alive() or one.ask("POST", f"/seckill/{voucher_of(one)}", "dora")[0] != 201:
        wrong.append("a database that is another shard stops the others")
    server.sql("update seckill_shard set number = 1")
    wait_for("the right shard", lambda: not one.ask("GET", "/readyz")[1].get("shards_away"))
    stack.land()
    return wrong


def is_found_later(stack: Stack) -> list[str]:
    """All instances start beside an old copy, and the shard that knows better comes back after they have opened it."""
    first, second = stack.shards
    second.base_backup("copy")
    stack.launch(1, {}, {}, False)
    time.sleep(2.5)  # some beats
    stack.land()
    first.kill()
    second.kill()
    data, own = second.dir / "data", second.dir / "own"
    data.rename(own)
    (second.dir / "copy").rename(data)
    second.run()
    stack.launch(1, {}, {}, False)
    one = stack.instances[0]
    wrong = ["an old copy is found before anybody knows better"] if RESTORED in one.text() else []
    time.sleep(2.5)
    first.run()
    try:
        wait_for("the old copy is noticed", lambda: RESTORED in one.text())
    except Broken as error:
        wrong.append(str(error))
    stack.land()
    second.kill()
    shutil.rmtree(data)
    own.rename(data)
    second.run()
    return wrong


def is_accepted(stack: Stack) -> list[str]:
    """A copy that lacks vouchers is all that is left of a shard, and its owner accepts it: an instance that knows them
    ends, and the next one sells what the copy has."""
    second = stack.shards[1]
    stack.launch(1, {}, {}, False)
    one = stack.instances[0]
    second.base_backup("copy")
    known = {row[0] for row in second.sql("select id from seckill_voucher")}
    made = [voucher_of(one) for _ in range(8)]
    if not set(made) & {row[0] for row in second.sql("select id from seckill_voucher")}:
        raise Broken("no voucher that the copy lacks")
    time.sleep(2.5)  # some beats
    second.kill()
    data = second.dir / "data"
    shutil.rmtree(data)
    (second.dir / "copy").rename(data)
    second.run()
    wait_for("the old copy is noticed", lambda: RESTORED in one.text())
    second.sql(f"select accept_shard({one.text().split('seen_ms=')[1].split()[0]})")
    wrong = []
    try:
        wait_for("the end of an instance with a wrong catalogue", lambda: not one.alive())
    except Broken as error:
        wrong.append(str(error))
    stack.land()
    stack.launch(1, {}, {}, False)
    status, document = buy(stack, sorted(known)[0], "after")
    if status != 201:
        wrong.append(f"a shard that was accepted does not sell: {status} {document}")
    stack.land()
    return wrong


class Copy(PostgresServer):
    """A physical copy of another server."""

    def __init__(self, folder, name: str, source: PostgresServer):
        self.source = source
        super().__init__(folder, name)

    def fill(self) -> None:
        self.source.base_backup("copy")
        (self.source.dir / "copy").rename(self.dir / "data")
        self.run()


def divide(server: PostgresServer, number: int) -> tuple[int, str]:
    more = ["-v", f"number={number}", "-v", "shards=2", "-f", str(ROOT / "deploy/split_shard.sql"), "seckill"]
    done = subprocess.run(server.psql(*more), capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def buy(stack: Stack, voucher: str, user: str) -> tuple[int, dict]:
    """A 503 is repeated: a voucher that is being loaded waits a moment, and a slow machine's store may be late."""
    deadline = Deadline(20)
    while True:
        status, document = stack.instances[0].ask("POST", f"/seckill/{voucher}", user)
        if status not in (0, 503) or deadline.passed():
            return status, document
        time.sleep(0.05)


def buy_all(stack: Stack, vouchers: list[str], users: list[str]) -> dict[tuple[str, str], str]:
    bought = {}
    for voucher in vouchers:
        for user in users:
            status, document = buy(stack, voucher, user)
            if status == 201:
                bought[voucher, user] = document["id"]
    if len(bought) != len(vouchers) * len(users):
        raise Broken(f"only {len(bought)} bought")
    return bought


def cancel_all(stack: Stack, bought: dict[tuple[str, str], str]) -> list[str]:
    """Makes an event of each order."""
    for (_, user), order in bought.items():
        cancel = lambda order=order, user=user: stack.instances[0].ask("POST", f"/orders/{order}/cancel", user)
        wait_for("a cancelled order", lambda cancel=cancel: cancel()[0] == 200, 20)
    return list(bought.values())


def events_after(instance, cursor: str) -> list[str]:
    """Whose orders they are, up to the end of the feed, which may be behind for a moment."""
    read, deadline = [], Deadline(3)
    while not deadline.passed():
        _, page = instance.ask("GET", f"/admin/events?limit=5&after={cursor}")
        read += [event["order_id"] for event in page.get("events", [])]
        cursor = page.get("next", cursor)
    return read


def is_split(stack: Stack) -> list[str]:
    """A database that is alone becomes two: each order stays, is found, and counts; both halves sell."""
    stack.share(1)
    stack.prepare("always")
    stack.launch(1, {}, {}, False)
    vouchers = [voucher_of(stack.instances[0], 100) for _ in range(8)]
    before = buy_all(stack, vouchers, ["anna", "ben"])
    moved = cancel_all(stack, buy_all(stack, vouchers, ["dora"]))
    first = stack.instances[0].ask("GET", "/admin/events?limit=5")[1]
    wrong = [] if divide(stack.shards[0], 0)[0] else ["it is split while an instance is connected"]
    stack.land()
    stack.shards.append(Copy(stack.folder, "pg-split", stack.shards[0]))
    stack.postgres = Shards(stack.shards)
    status, text = said(stack, "--check", env={"SECKILL_LISTEN": "127.0.0.1:0"})
    if status != 2 or "shard 0 of 1, not 1 of 2" not in text:
        wrong.append(f"control: --check does not see that the copy was not split: {status} {text[-500:]}")
    for number in (0, 1, 1):  # it may be repeated
        code, text = divide(stack.shards[number], number)
        if code:
            raise Broken(f"split_shard.sql: {text}")
    kept = [int(server.sql("select count(*) from seckill_voucher")[0][0]) for server in stack.shards]
    print(f"    one database split: {kept[0]} and {kept[1]} vouchers")
    if 0 in kept or sum(kept) != len(vouchers):
        wrong.append(f"{kept} vouchers after the split, of {len(vouchers)}")
    stack.launch(1, {}, {}, False)
    one = stack.instances[0]
    for (voucher, user), order in before.items():
        status, document = buy(stack, voucher, user)
        if one.ask("GET", f"/orders/{order}", user)[0] != 200 or document.get("order_id") != order:
            wrong.append(f"{user} of {voucher} gets {status} {document}")
    moved += cancel_all(stack, buy_all(stack, vouchers, ["carl"]))
    read = [event["order_id"] for event in first["events"]] + events_after(one, first["next"])
    if sorted(read) != sorted(moved):
        wrong.append(f"a reader of the feed, who began before the split, has read {len(read)} events of {len(moved)}")
    for voucher in vouchers:
        status, report = one.ask("GET", f"/admin/vouchers/{voucher}/settlement")
        if status != 200 or report.get("wrong"):
            wrong.append(f"the settlement of {voucher} answers {status} and {report.get('wrong')}")
    rows = int(sum(int(row[0]) for row in stack.postgres.sql("select count(*) from voucher_order")))
    if rows != 4 * len(vouchers):
        wrong.append(f"{rows} orders, {4 * len(vouchers)} are due")
    return wrong


def run(binary) -> list[str]:
    stack = Stack(binary)
    wrong = []
    try:
        shape = {"shards": 2, "vouchers": VOUCHERS, "units": 400, "users": 2000}
        both = Fault("both", "both shards sell, lists and the feed are merged", merged, seconds=4.0, **shape)
        for fault, kind in ((both, Controlled), *((row, Run) for row in ROWS)):
            wrong += judged(run_fault(stack, fault, 1, kind=kind))
        wrong += misfits(stack)
        wrong += stays(stack)
        wrong += is_found_later(stack)
        wrong += is_accepted(stack)
        wrong += is_split(stack)
    finally:
        stack.land()
        stack.close()
    return wrong
