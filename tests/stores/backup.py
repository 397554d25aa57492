"""Backup and restore of both stores while a crowd buys: PostgreSQL first, then Redis, empty or older. With the
write-ahead log kept elsewhere no promise is broken; with a base backup alone, none from before it."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

from driver import Run, run_fault
from fault import Fault
from machine import Deadline
from stack import Broken, Process, Stack, wait_for
from tls import sells

UNITS = 60
SLOW_DISK_S = 150  # a restored PostgreSQL syncs all its files first, and a receiver each segment: long where disks are busy


def owned_folder(stack: Stack, name: str) -> Path:
    folder = stack.postgres.dir / name
    folder.mkdir()
    stack.postgres.own(folder)
    return folder


def replace_data(stack: Stack, backup: Path) -> Path:
    """Replaces the server's data by a copy of the backup, which can be restored again."""
    data = stack.postgres.dir / "data"
    shutil.rmtree(data)
    subprocess.run(["cp", "-a", str(backup), str(data)], check=True)
    return data


# ---- with the write-ahead log ----


class LogKeeper(Process):
    """pg_receivewal: PostgreSQL confirms no commit before it is on this disk."""

    def __init__(self, stack: Stack):
        super().__init__("pg_receivewal", stack.folder / "receivewal.log")
        self.stack, self.folder = stack, owned_folder(stack, "wal")
        postgres = stack.postgres
        server = ["-h", str(postgres.dir), "-p", str(postgres.port), "-U", "postgres", "--slot", "keeper"]
        postgres.tool("pg_receivewal", *server, "--create-slot")  # nothing is removed before it is received
        self.start([str(postgres.bin / "pg_receivewal"), *server, "-D", str(self.folder), "--synchronous",
                    "--status-interval=1", "--no-loop"], {"PGAPPNAME": "keeper"}, postgres.user)
        stack.others.append(self)
        postgres.sql("alter system set synchronous_standby_names = 'keeper'", "postgres")
        postgres.sql("select pg_reload_conf()", "postgres")
        in_step = "select 1 from pg_stat_replication where application_name = 'keeper' and sync_state = 'sync'"
        wait_for("pg_receivewal in step", lambda: postgres.sql(in_step, "postgres") == [["1"]])

    def catch_up(self) -> None:
        """Waits until all log so far is received: a base backup without its own log needs it for a restore."""
        end = self.stack.postgres.sql("select pg_current_wal_flush_lsn()", "postgres")[0][0]
        received = f"select 1 from pg_stat_replication where application_name = 'keeper' and flush_lsn >= '{end}'"
        wait_for("the log of the backup", lambda: self.stack.postgres.sql(received, "postgres") == [["1"]], SLOW_DISK_S)

    def finish(self) -> None:
        """The last, partial segment counts as far as it goes."""
        self.end(signal.SIGINT)
        for path in self.folder.glob("*.partial"):
            path.rename(path.with_suffix(""))


def lost_and_restored(run: Run) -> None:
    """Both stores are lost while the crowd buys."""
    stack = run.stack
    keeper = LogKeeper(stack)
    backup = stack.postgres.base_backup("base", "none")
    keeper.catch_up()
    time.sleep(1.0)  # these sales are only in the log
    before = stack.postgres.sql("select count(*) from voucher_order")[0][0]
    stack.redis.end(signal.SIGKILL)
    stack.postgres.stop_immediate()
    keeper.finish()
    data = replace_data(stack, backup)
    with open(data / "postgresql.auto.conf", "a", encoding="utf-8") as file:
        file.write(f"restore_command = 'cp {keeper.folder}/%f %p'\nsynchronous_standby_names = ''\n")
    (data / "recovery.signal").touch()
    stack.postgres.run(SLOW_DISK_S)
    writes = lambda: stack.postgres.sql("select pg_is_in_recovery()", "postgres") == [["f"]]
    wait_for("the end of PostgreSQL's recovery", writes)
    after = stack.postgres.sql("select count(*) from voucher_order")[0][0]
    stack.redis.erase()
    stack.redis.run(*stack.redis_settings)
    print(f"    {before} orders before, {after} restored")
    if int(after) < int(before):
        run.seen_meanwhile.append(f"{before} orders before, {after} restored")
    run.healed()


def with_the_log(stack: Stack) -> list[str]:
    fault = Fault(
        "restore", "both stores lost and restored", lost_and_restored, seconds=9.0, users=900, units=500, rate=150,
        rebuilds=6, unknown=0.9, refused_202=100, fresh_redis=True,
    )
    result = run_fault(stack, fault, 1)
    for name, complaints in result.complaints.items():
        print(f"    {name}: {complaints[:3]}")
    return [] if result.held else [f"{name}: {some[0]}" for name, some in result.complaints.items()] or [result.why]


# ---- with a base backup alone ----


def buy_all(stack: Stack, voucher: str, users: list[str]) -> dict[str, str]:
    """Returns user -> order of those answered 201. A 503 is repeated: a voucher that was reconciled waits a moment."""
    told, deadline = {}, Deadline(20)
    for user in users:
        status, document = 503, {}
        while status == 503 and not deadline.passed():
            status, document = stack.instances[0].ask("POST", f"/seckill/{voucher}", user)
        if status == 201:
            told[user] = document["id"]
    return told


def stop_all(stack: Stack) -> None:
    stack.land()
    stack.redis.end(signal.SIGTERM)
    stack.postgres.end(signal.SIGINT)


def judge(stack: Stack, voucher: str, early: dict[str, str], late: dict[str, str], redis: str) -> list[str]:
    """Orders from before the backup stand; later ones are gone, and their users may buy; nothing is oversold."""
    one, wrong = stack.instances[0], []
    wait_for("the voucher open", lambda: one.ask("POST", f"/seckill/{voucher}", "first")[0] in (201, 409), 30)
    for user, order in early.items():
        if one.ask("GET", f"/orders/{order}", user)[0] != 200:
            wrong.append(f"Redis {redis}: {user}'s order of before the backup is lost")
        status, document = one.ask("POST", f"/seckill/{voucher}", user)
        if document.get("order_id") != order:
            wrong.append(f"Redis {redis}: {user} is told {status} {document}")
    again = buy_all(stack, voucher, list(late))
    if set(again.values()) & set(late.values()) or len(again) != len(late):
        wrong.append(f"Redis {redis}: of {len(late)} who bought after the backup {len(again)} could buy again")
    buy_all(stack, voucher, [f"more{n}" for n in range(UNITS)])
    live, users = stack.postgres.sql(
        "select count(*), count(distinct user_id) from voucher_order"
        f" where voucher_id = {voucher} and status in ('unpaid', 'paid')"
    )[0]
    if int(live) != UNITS or live != users:
        wrong.append(f"Redis {redis}: {live} live orders of {users} users, of {UNITS} units")
    journal = lambda: stack.redis.call("XLEN", f"seckill:{{{voucher}}}:journal") == 0
    wait_for("an empty journal", journal)
    status, report = one.ask("GET", f"/admin/vouchers/{voucher}/settlement")
    if status != 200 or report.get("wrong"):
        wrong.append(f"Redis {redis}: the settlement says {report.get('wrong')}")
    print(f"    Redis {redis}: {len(early)} orders kept, {len(late)} bought again, {live} of {UNITS} live")
    return wrong


def with_a_backup_alone(stack: Stack) -> list[str]:
    stack.prepare("always", fresh_redis=True)
    stack.launch(1, {}, {}, False)
    voucher: list[str] = []
    wait_for("a sale", lambda: sells(stack.instances[0], voucher))
    id, redis = voucher[0], stack.redis.dir
    stack.postgres.sql(f"update voucher_stock set units = {UNITS}, stock = {UNITS} - live where voucher_id = {id}")
    stack.instances[0].ask("POST", f"/admin/vouchers/{id}/reconcile")
    shutil.copytree(redis, stack.folder / "older")
    early = buy_all(stack, id, [f"early{n}" for n in range(15)])
    backup = stack.postgres.base_backup("alone")
    late = buy_all(stack, id, [f"late{n}" for n in range(10)])
    if len(early) != 15 or len(late) != 10:
        raise Broken(f"{len(early)} and {len(late)} bought")
    stop_all(stack)
    shutil.copytree(redis, stack.folder / "newer")
    wrong = []
    for name in ("empty", "older", "newer"):
        replace_data(stack, backup)
        stack.postgres.run(SLOW_DISK_S)
        shutil.rmtree(redis)
        redis.mkdir() if name == "empty" else shutil.copytree(stack.folder / name, redis)
        stack.redis.run(*stack.redis_settings)
        stack.launch(1, {}, {}, False)
        wrong += judge(stack, id, early, late, name)
        stop_all(stack)
    stack.postgres.run()
    return wrong


def run(binary) -> list[str]:
    stack = Stack(binary)
    try:
        return with_a_backup_alone(stack) + with_the_log(stack)
    finally:
        stack.land()
        stack.close()
