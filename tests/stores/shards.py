"""Two PostgreSQL servers share the vouchers: both sell, lists and the feed are merged, one is killed in the rush, and one
is restored from an older copy. The fault suite's checker judges the books of both together."""

from __future__ import annotations

import os
import signal
import subprocess

import checker
from driver import Run, run_fault
from fault import Fault, Result
from rows_shards import ROWS, split
from stack import Stack, wait_for

VOUCHERS = 6


def every_page(run: Run, path: str, name: str, user: str = "", cursor: str = "cursor") -> list[dict]:
    """All rows of a list, two a page."""
    rows, more = [], ""
    for _ in range(1000):
        mark = "&" if "?" in path else "?"
        status, page = run.first.ask("GET", f"{path}{mark}limit=2{more}", user)
        if status != 200:
            run.seen_meanwhile.append(f"{path} answers {status}")
            break
        rows += page[name]
        if not page.get("next") or (cursor == "after" and not page[name]):
            break
        more = f"&{cursor}={page['next']}"
    return rows


def same(run: Run, what: str, found: list, due: list) -> None:
    if found != due:
        run.seen_meanwhile.append(f"{what}: {len(found)} rows, {len(due)} are due: {found[:3]} and {due[:3]}")


def merged(run: Run) -> None:
    """Both shards sell; each list has the rows of both, each row once, the newest first."""
    first, second = split(run)
    for voucher in run.vouchers:
        run.buy("of-all", 0, 5.0, voucher)
    ids = sorted(map(int, first + second), reverse=True)
    for path in ("/vouchers", "/admin/vouchers"):
        same(run, path, [int(row["id"]) for row in every_page(run, path, "vouchers")], ids)
    orders = [row["id"] for row in every_page(run, "/orders", "orders", "of-all")]
    own = run.postgres.sql("select id from voucher_order where user_id = 'of-all'")
    same(run, "/orders", orders, sorted((row[0] for row in own), reverse=True))
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
    if status == 0:
        wrong.append("--migrate renumbers shards that have vouchers")
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
    finally:
        stack.land()
        stack.close()
    return wrong
