"""What is broken in Redis (faults 4 to 12) and in its journal (24, 25)."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time

from driver import Run
from stack import Broken, free_port, wait_for

# ---- 4 to 12: Redis ----


def redis_killed(run: Run) -> None:
    run.redis.end(signal.SIGKILL)
    time.sleep(0.3)
    run.redis.run(*run.stack.redis_settings)


def redis_cut_inside_its_last_transaction(run: Run) -> None:
    run.redis.end(signal.SIGKILL)
    file = run.redis.aof()
    os.truncate(file, max(0, file.stat().st_size - 10))
    run.redis.run(*run.stack.redis_settings)


def redis_back_a_second(run: Run) -> None:
    size = run.redis.aof().stat().st_size
    time.sleep(1.0)
    run.redis.end(signal.SIGKILL)
    os.truncate(run.redis.aof(), size)
    run.redis.run(*run.stack.redis_settings)


def redis_erased(run: Run) -> None:
    holder = run.hold_orders(0.5)  # orders are in the instances alone
    run.redis.end(signal.SIGKILL)
    run.redis.erase()
    run.redis.run(*run.stack.redis_settings)
    holder.wait()


def flushall(run: Run) -> None:
    run.redis.call("FLUSHALL")


def flushall_while_orders_wait(run: Run) -> None:
    holder = run.hold_orders(0.5)
    time.sleep(0.2)
    run.redis.call("FLUSHALL")
    holder.wait()


def sold_out_meanwhile(run: Run) -> None:
    """Redis loses the grants of one instance that is stopped; by the time it goes on, all units are sold."""
    holder = run.hold_orders(0.8)
    time.sleep(0.3)
    run.first.signal(signal.SIGSTOP)
    run.redis.call("FLUSHALL")
    holder.wait()
    wait_for("rebuilt", lambda: run.redis.call("HGET", run.key("voucher"), "state") == "open")
    deadline, n = time.monotonic() + 10, 0
    while run.buy(f"late{n}", 1, 5.0).code != "SOLD_OUT":
        n += 1
        if time.monotonic() > deadline:
            raise Broken("never sold out")
    run.first.signal(signal.SIGCONT)
    lost = "select 1 from voucher_order where reason = 'GRANT_LOST' limit 1"
    wait_for("an order that woke too late", lambda: run.postgres.sql(lost), 10)


def rebuilt_meanwhile(run: Run) -> None:
    """The same, but there are units left: what it says late must not slip past Redis."""
    holder = run.hold_orders(0.8)
    time.sleep(0.4)
    run.first.signal(signal.SIGSTOP)
    run.redis.call("FLUSHALL")
    holder.wait()
    wait_for("rebuilt", lambda: run.buy("late", 1, 5.0).outcome == "ok")
    time.sleep(0.3)
    run.first.signal(signal.SIGCONT)


def rolled_back_mid_reconcile(run: Run) -> None:
    """A reconcile is stopped while it writes the buyers; meanwhile Redis loses those it has."""
    thread = threading.Thread(target=run.reconcile)
    thread.start()
    wait_for("stopped", lambda: "reconcile.buyers" in run.first.text())
    run.redis.call("DEL", run.key("buyers"))
    run.first.signal(signal.SIGCONT)
    thread.join()


def flushed_while_buyers_are_read(run: Run) -> None:
    """All is sold, and an instance reads who has bought, to refuse the others from memory: there is nobody any more."""
    wait_for("stopped", lambda: "admit.counted" in run.first.text())
    holder = run.hold_orders(0.5, "seckill_segment")  # nobody rebuilds the voucher yet
    run.redis.call("FLUSHALL")
    run.first.signal(signal.SIGCONT)
    holder.wait()


def old_copy_restored(run: Run) -> None:
    copy = run.redis.dir.with_name("redis-copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(run.redis.dir, copy)
    time.sleep(0.8)
    run.redis.end(signal.SIGKILL)
    shutil.rmtree(run.redis.dir)
    copy.rename(run.redis.dir)
    run.redis.run(*run.stack.redis_settings)


def old_copy_restored_in_place(run: Run) -> None:
    """The same process, so no new run id tells: only what it holds does. Both keys in one step: a voucher that went
    back alone is rebuilt at once, and old buyers put into the new one are beyond what anybody can notice soon."""
    keys = [run.key("voucher"), run.key("buyers")]
    copies = run.redis.call("EVAL", "return { redis.call('DUMP', KEYS[1]), redis.call('DUMP', KEYS[2]) }", 2, *keys)
    time.sleep(0.8)
    restore = "for i = 1, 2 do redis.call('RESTORE', KEYS[i], 0, ARGV[i], 'REPLACE') end"
    run.redis.call("EVAL", restore, 2, *keys, *(copy.encode("latin-1") for copy in copies))


def restarted_behind(run: Run) -> None:
    """Redis comes back with an older state, while PostgreSQL, which knows better, is away."""
    copy = run.redis.dir.with_name("redis-copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(run.redis.dir, copy)
    winners = [f"winner{n}" for n in range(10)]
    for winner in winners:
        run.buy(winner)
    run.postgres.stop_immediate()
    run.redis.end(signal.SIGKILL)
    shutil.rmtree(run.redis.dir)
    copy.rename(run.redis.dir)
    run.redis.run(*run.stack.redis_settings)
    run.redis.call("HSET", run.key("voucher"), "stock", 0)  # others would have bought the rest
    time.sleep(0.5)
    for winner in winners:
        run.buy(winner)
    run.postgres.run()


def scripts_flushed(run: Run) -> None:
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        run.redis.call("SCRIPT", "FLUSH")
        time.sleep(0.005)


def redis_memory_full(run: Run) -> None:
    run.redis.call("CONFIG", "SET", "maxmemory", "1")
    time.sleep(0.8)
    run.redis.call("CONFIG", "SET", "maxmemory", "0")


def redis_disk_full(run: Run) -> None:
    """Redis ends itself when it cannot write its file with appendfsync always; it comes back with room."""
    disk = run.stack.small_disk("disk", 3)
    run.redis.end(signal.SIGTERM)
    target = disk / "redis"
    shutil.copytree(run.redis.dir, target)
    own, run.redis.dir = run.redis.dir, target
    run.redis.run(*run.stack.redis_settings)
    ballast = disk / "ballast"
    fill(ballast)
    time.sleep(1.0)
    ballast.unlink()
    run.redis.end(signal.SIGTERM)
    run.redis.dir = own
    shutil.rmtree(own)
    shutil.copytree(target, own)
    run.redis.run(*run.stack.redis_settings)


def fill(file: Path) -> None:
    try:
        with open(file, "wb", buffering=0) as out:
            while True:
                out.write(b"x" * 4096)
    except OSError:
        pass


def redis_paused(run: Run) -> None:
    run.redis.signal(signal.SIGSTOP)
    time.sleep(5)
    run.redis.signal(signal.SIGCONT)


def redis_busy(run: Run) -> None:
    script = "local t = redis.call('TIME')[1] + 2 repeat until redis.call('TIME')[1] - t >= 0 return 1"
    run.redis.call("CONFIG", "SET", "lua-time-limit", "100")
    run.redis.call("EVAL", script, 0, timeout=10)


def replica_promoted(run: Run) -> None:
    """The replica has missed the last 0.4 s."""
    replica = run.stack.new_redis()
    replica.run("always")
    run.stack.others.append(replica)
    replica.call("REPLICAOF", "127.0.0.1", run.redis.port)
    wait_for("replica", lambda: "master_link_status:up" in replica.call("INFO", "replication"))
    time.sleep(0.3)
    replica.call("REPLICAOF", "127.0.0.1", free_port())  # the link is cut
    time.sleep(0.4)
    run.redis.end(signal.SIGKILL)
    replica.call("REPLICAOF", "NO", "ONE")
    run.stack.redis_proxy.upstream = replica.port
    run.stack.redis, run.stack.others = replica, [run.redis]
    run.stack.redis_settings = ()  # the next fault starts its own


def redis_demoted(run: Run) -> None:
    """It becomes a replica while connections are open, and a master again."""
    run.redis.call("REPLICAOF", "127.0.0.1", free_port())
    time.sleep(0.8)
    run.redis.call("REPLICAOF", "NO", "ONE")


# ---- 24, 25: the journal ----


def broken_entries(run: Run) -> None:
    order = "01a1fbe1-0c46-72f8-bdd2-587980274993"
    for fields in (
        ["epoch", "1"],
        ["orders", f"{order} mallory"],
        ["epoch", "1", "orders", "not an order"],
        ["epoch", "1", "orders", b"\x00\xff\xfe,\x01"],
        ["epoch", "99999999999999999999", "orders", f"{order} mallory"],
        ["epoch", "1", "orders", f"{order} {'x' * 5000}"],
        ["epoch", "1", "orders", f"{order} mallory," * 3],
    ):
        run.redis.call("XADD", run.key("journal"), "*", *fields)
    time.sleep(1.2)


def journal_deleted(run: Run) -> None:
    holder = run.hold_orders(0.5)
    time.sleep(0.2)
    run.redis.call("DEL", run.key("journal"))
    holder.wait()


def journal_trimmed(run: Run) -> None:
    holder = run.hold_orders(0.5)
    time.sleep(0.2)
    run.redis.call("XTRIM", run.key("journal"), "MAXLEN", 1)
    holder.wait()


def refused_by_postgres(run: Run) -> None:
    """One user's orders are refused whatever happens: they are set aside, and settled once that is over."""
    run.postgres.sql(
        "create function refuse_victor() returns trigger language plpgsql as $$ begin"
        " if new.user_id = 'victor' and new.status <> 'refused' then raise 'not victor'; end if; return new; end $$;"
        "create trigger victor before insert on voucher_order for each row execute function refuse_victor();"
    )
    run.buy("victor", 0, 5.0)
    path = f"/admin/vouchers/{run.vouchers[0]}/dead-letters"
    try:
        wait_for("dead letter", lambda: run.first.ask("GET", path)[1].get("dead_letters"), 20)
        if run.reconcile(1) != 200:
            raise Broken("no reconcile with a dead letter")
    finally:
        run.postgres.sql("drop trigger victor on voucher_order; drop function refuse_victor()")
    letter = run.first.ask("GET", path)[1]["dead_letters"][0]
    run.first.ask("POST", f"{path}/{letter['id']}/requeue")
