"""From a real earlier version to this one. The commit is built, makes its own tables and opens a sale. Then the new
version migrates under load, and the result must be what both trees promise:

  same lineage, same protocol     side by side and back, as two versions of one tree (upgrade.py)
  same lineage, other protocol    the new one waits until the old ones have ended, and the other way round
  other lineage                   the new one refuses the tables and changes nothing; the old one continues to sell

Same lineage: the migrations of one begin with those of the other, text by text."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import upgrade
from stack import ROOT, Broken, Instance, Stack, wait_for

UNITS, PAUSE_S = 100000, 0.02
UNFIT = "the statements do not fit this database"
# All definitions of tables and functions, and the recorded migrations.
SCHEMA = """
select md5(coalesce(string_agg(line, ',' order by line), '')) from (
  select p.oid::regprocedure::text || md5(p.prosrc) || p.prosecdef || coalesce(p.proacl::text, '') as line
    from pg_proc p where p.pronamespace = 'public'::regnamespace
  union all
  select c.relname || ' ' || a.attname || a.atttypid || a.attnotnull || coalesce(c.relacl::text, '')
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
   where c.relnamespace = 'public'::regnamespace
  union all
  select m::text from seckill_migration m) as lines
"""
BOOKS = """
select s.units - s.stock, (select count(*) from voucher_order where voucher_id = s.voucher_id and status = 'unpaid')
  from %s s where voucher_id = %s
"""
STOCK_TABLES = "voucher_stock", "seckill_segment"  # of this lineage, and of the previous one


def check_out(folder: Path, commit: str) -> Path:
    tree = folder / re.sub(r"\W", "-", commit)
    tree.mkdir()
    copy = f"git -C '{ROOT}' archive '{commit}' | tar -x -C '{tree}'"
    if subprocess.run(["bash", "-o", "pipefail", "-c", copy]).returncode != 0:
        raise Broken(f"there is no commit {commit}")
    return tree


def line_of(tree: Path) -> list[tuple[str, str]]:
    return [(file.name, file.read_text()) for file in sorted((tree / "sql/migrations").glob("*.sql"))]


def protocol_of(tree: Path) -> str:
    found = re.search(r'#define SK_PROTOCOL "(\w+)"', (tree / "src/store/keys.h").read_text())
    return found.group(1) if found else ""


def migrate(stack: Stack, binary: Path) -> tuple[int, str]:
    env = os.environ | {"SECKILL_DATABASE_URL": stack.postgres.url("owner")}
    done = subprocess.run([str(binary), "--migrate"], env=env, capture_output=True, text=True)
    applied = re.findall(r'msg="migration applied" name=(\w+)', done.stderr)
    print(f"    --migrate: exit status {done.returncode}, applied: {', '.join(applied) or 'nothing'}", flush=True)
    return done.returncode, done.stderr


def must_migrate(stack: Stack, binary: Path) -> None:
    code, text = migrate(stack, binary)
    if code != 0:
        raise Broken(f"--migrate of the new version: {text[-300:]}")


# ---- other lineage ----


class OpenStack(Stack):
    """Redis admits everybody: the names and rights of old versions are not under test."""

    def store_urls(self, proxied: bool) -> dict[str, str]:
        return super().store_urls(proxied) | {"SECKILL_REDIS_URL": f"redis://127.0.0.1:{self.redis.port}"}


class Buyers(threading.Thread):
    """One user after the other, each once, at the old instance; any answer but a sale is an error."""

    def __init__(self, one: Instance, voucher: str):
        super().__init__(daemon=True)
        self.one, self.voucher, self.sold, self.wrong, self.enough = one, voucher, 0, [], threading.Event()

    def run(self) -> None:
        while not self.enough.wait(PAUSE_S):
            status, document = self.one.ask("POST", f"/seckill/{self.voucher}", f"u{self.sold}")
            if status not in (201, 202):
                self.wrong.append(f"a buyer of the old version got {status} {document.get('code', '')}")
                return
            self.sold += 1

    def end(self) -> None:
        self.enough.set()
        self.join()


def open_sale(one: Instance) -> str:
    now = datetime.now(timezone.utc)
    at = lambda hours: (now + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")
    terms = {"title": "Upgrade", "stock": UNITS, "price_cents": 1, "begin_at": at(-1), "end_at": at(24)}
    status, document = one.ask("POST", "/admin/vouchers", body=terms)
    if status != 201:
        raise Broken(f"no voucher: {status} {document}")
    return str(document["id"])


def starts_without_selling(stack: Stack, binary: Path, voucher: str, reason: str, when: str) -> tuple[Instance, list[str]]:
    """An instance that must neither become ready nor sell, and that reports why."""
    one, wrong = Instance(7, stack.folder, binary, stack.store_urls(False)), []
    one.run()
    stack.instances.append(one)
    time.sleep(upgrade.REFUSED_S)
    if one.ready():
        wrong.append(f"the new version is ready {when}")
    status, _ = one.ask("POST", f"/seckill/{voucher}", "new")
    if status != 503:
        wrong.append(f"the new version answers {status} to a purchase {when}")
    said = [line for line in one.text().splitlines() if reason in line]
    if not said:
        wrong.append(f"the new version does not say {when}: {reason}")
    print(f"    {when} it says: {said[-1] if said else 'nothing'}", flush=True)
    return one, wrong


def end(stack: Stack, one: Instance) -> None:
    one.end(signal.SIGTERM)
    one.note_exit()
    stack.instances.remove(one)


def sell_all_the_while(stack: Stack, new: Path, old: Instance, voucher: str) -> tuple[int, list[str]]:
    """What the new version does next to the old one; and how many the old one sold."""
    buyers, before = Buyers(old, voucher), stack.postgres.sql(SCHEMA)
    buyers.start()
    wait_for("buyers", lambda: buyers.sold > 10 or buyers.wrong)
    code, text = migrate(stack, new)
    wrong = [] if code != 0 and "not migrated by a version of this line" in text else [f"--migrate: {code} {text[-200:]}"]
    theirs, more = starts_without_selling(stack, new, voucher, UNFIT, "beside the old one")
    end(stack, theirs)
    sold = buyers.sold
    wait_for("more buyers", lambda: buyers.sold > sold or buyers.wrong)
    buyers.end()
    if stack.postgres.sql(SCHEMA) != before:
        wrong.append("the new version has changed the schema")
    return buyers.sold, wrong + more + buyers.wrong


def refused(stack: Stack, new: Path) -> list[str]:
    stack.redis = stack.new_redis()
    stack.redis.run()
    stack.launch(1, {}, {}, False)
    old = stack.instances[0]
    voucher = open_sale(old)
    sold, wrong = sell_all_the_while(stack, new, old, voucher)
    end(stack, old)
    theirs, more = starts_without_selling(stack, new, voucher, UNFIT, "when the old one has ended")
    end(stack, theirs)
    stack.launch(1, {}, {}, False)
    after = Buyers(stack.instances[0], voucher)
    after.sold = sold
    after.start()
    wait_for("buyers of the old one, started again", lambda: after.sold > sold + 10 or after.wrong)
    after.end()
    end(stack, stack.instances[0])
    [[table]] = stack.postgres.sql(f"select coalesce({', '.join(f'to_regclass({name!r})' for name in STOCK_TABLES)})")
    [[gone, orders]] = stack.postgres.sql(BOOKS % (table, voucher))
    print(f"    the old version has sold {after.sold}, {sold} of them beside the new one; units gone {gone}, orders {orders}")
    if not gone == orders == str(after.sold):
        wrong.append("the old version's books do not balance")
    return wrong + more + after.wrong + change_is_seen(stack)


def change_is_seen(stack: Stack) -> list[str]:
    """The control of the comparison of schemas."""
    before = stack.postgres.sql(SCHEMA)
    stack.postgres.sql("alter table voucher_order add column control integer")
    return [] if stack.postgres.sql(SCHEMA) != before else ["a changed table is not noticed"]


# ---- the run ----


def run(new: Path, commit: str) -> list[str]:
    folder = Path(tempfile.mkdtemp(prefix="seckill-upgrade.", dir="/var/tmp"))
    stack = None
    try:
        tree = check_out(folder, commit)
        theirs, ours = line_of(tree), line_of(ROOT)
        common = min(len(theirs), len(ours))
        one_line, one_protocol = theirs[:common] == ours[:common], protocol_of(tree) == protocol_of(ROOT)
        print(f"    {commit}: {'one line' if one_line else 'another line'}, protocol {protocol_of(tree)}, here"
              f" {protocol_of(ROOT)}", flush=True)
        stack = (Stack if one_line else OpenStack)(upgrade.make(tree))
        if not one_line:
            return refused(stack, new)
        if one_protocol:
            return upgrade.side_by_side(stack, new, lambda: must_migrate(stack, new))
        must_migrate(stack, new)
        return upgrade.refused_beside(stack, new)
    finally:
        if stack is not None:
            stack.land()
            stack.close()
        shutil.rmtree(folder, ignore_errors=True)
