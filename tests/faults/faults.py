"""The faults, in the order of the list. Each function breaks something while the crowd buys, and mends it."""

from __future__ import annotations

import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

from crowd import Event
from driver import Fault, Run
from faults_redis import (
    broken_entries,
    fill,
    flushall,
    flushall_while_orders_wait,
    flushed_while_buyers_are_read,
    journal_deleted,
    journal_trimmed,
    old_copy_restored,
    old_copy_restored_in_place,
    rebuilt_meanwhile,
    redis_back_a_second,
    redis_busy,
    redis_cut_inside_its_last_transaction,
    redis_demoted,
    redis_disk_full,
    redis_erased,
    redis_killed,
    redis_memory_full,
    redis_paused,
    refused_by_postgres,
    replica_promoted,
    restarted_behind,
    rolled_back_mid_reconcile,
    scripts_flushed,
    sold_out_meanwhile,
)
from hostile import HostileRedis
from stack import Broken, Instance, wait_for

# ---- 1 to 3: instances ----


def killed_at(run: Run) -> None:
    """The failpoint is armed from the start; the crowd reaches it."""
    if not run.wait_dead():
        raise Broken("the failpoint was not reached")


def killed_correcting(run: Run) -> None:
    """A user has an order that Redis does not know; buying again, it is corrected."""
    hide_an_order(run)
    run.buy("twin", instance=0)
    killed_at(run)


def hide_an_order(run: Run) -> None:
    """The twin has an order, and its unit is taken; but Redis does not know whose it is."""
    voucher = run.vouchers[0]
    run.postgres.sql(
        f"insert into voucher_order (id, slot, user_id, voucher_id)"
        f" values (gen_random_uuid(), slot_of('{voucher}'), 'twin', {voucher});"
        f"update seckill_segment set stock = stock - 1, live = live + 1 where voucher_id = {voucher};"
    )
    run.redis.call("HINCRBY", run.key("voucher"), "stock", -1)
    run.hide_units(1)


def bought_twice(run: Run) -> None:
    hide_an_order(run)
    run.buy("twin")


def compensated_twice(run: Run) -> None:
    """It stops just before it compensates; another does so; then it goes on, and does so too."""
    hide_an_order(run)
    run.buy("twin", instance=0, timeout=1)
    wait_for("stopped", lambda: "writer.correcting" in run.first.text())
    wait_for("recovered", lambda: run.redis.call("XLEN", run.key("journal")) == 0 or recovered(run))
    run.first.signal(signal.SIGCONT)


def recovered(run: Run) -> bool:
    """Whether another has given the twin's entry its older order."""
    order = run.redis.call("HGET", run.key("buyers"), "twin")
    older = run.postgres.sql(f"select id from voucher_order where user_id = 'twin' and status = 'unpaid'")
    return [order] in older


def killed_reconciling(run: Run) -> None:
    """Orders pile up, so that there is a journal to settle; then an admin reconciles."""
    holder = run.hold_orders(0.6)
    thread = threading.Thread(target=run.reconcile)
    thread.start()
    killed_at(run)
    run.healed()
    thread.join()
    holder.wait()


def stopped_and_continued(run: Run) -> None:
    run.first.signal(signal.SIGSTOP)
    time.sleep(2.5)
    run.first.signal(signal.SIGCONT)


def nothing(_run: Run) -> None:
    """The load itself is the fault."""


# ---- 13 to 18: PostgreSQL ----


def postgres_restarted(run: Run) -> None:
    run.postgres.stop_immediate()
    time.sleep(0.5)
    run.postgres.run()


def postgres_away(run: Run) -> None:
    run.postgres.stop_immediate()
    time.sleep(3)
    run.postgres.run()


def both_away(run: Run) -> None:
    run.postgres.stop_immediate()
    run.redis.end(signal.SIGKILL)
    time.sleep(0.8)
    run.redis.run(*run.stack.redis_settings)
    time.sleep(0.5)
    run.postgres.run()


def backends_terminated(run: Run) -> None:
    for _ in range(40):
        run.postgres.sql("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'seckill'")
        time.sleep(0.05)


def postgres_disk_full(run: Run) -> None:
    disk = run.stack.small_disk("space", 1)
    if run.postgres.user:
        shutil.chown(disk, run.postgres.user, run.postgres.user)
    run.postgres.sql(f"create tablespace small location '{disk}'")
    try:
        run.postgres.sql("alter table voucher_order set tablespace small")
        ballast = disk / "ballast"
        fill(ballast)
        time.sleep(1.5)
        ballast.unlink()
    finally:
        run.postgres.sql("alter table voucher_order set tablespace pg_default")
        run.postgres.sql("drop tablespace small")


def orders_locked(run: Run) -> None:
    run.hold_orders(30).wait()


def commits_held(run: Run) -> None:
    """Nothing can be committed: nobody may hear 201, and whose order is under way stays locked."""
    holder = run.hold_orders(2.8)
    buyer = threading.Thread(target=run.buy, args=("solo", 1, 1.0))
    buyer.start()
    locked = True
    for _ in range(5):  # longer than a session lives without being renewed, and every instance has looked
        time.sleep(0.5)
        locked = locked and run.redis.call("HGET", run.key("buyers"), "solo") is not None
        locked = locked and run.redis.call("XLEN", run.key("journal")) == 1
    if any("recovering journal entries" in instance.text() for instance in run.stack.instances):
        run.seen_meanwhile.append("orders of a living session were taken over")
    buyer.join()
    solo = next(event for event in run.history if event.user == "solo")
    if solo.outcome != "ok":
        raise Broken(f"the order was not accepted: {solo.status} {solo.code}")
    if not locked:
        run.seen_meanwhile.append("a user was not locked while the order waited for COMMIT")
    if solo.status == 201:
        run.seen_meanwhile.append("201 was heard while nothing could be committed")
    holder.wait()


def read_only(run: Run) -> None:
    for value in ("on", "off"):
        run.postgres.sql(f"alter role seckill set default_transaction_read_only = {value}")
        run.postgres.sql("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'seckill'")
        time.sleep(1.0 if value == "on" else 0)


# ---- 19, 20: links ----


def half_open(which: str, direction: str):
    def inject(run: Run) -> None:
        proxy = getattr(run.stack, f"{which}_proxy")
        proxy.swallow[direction] = True
        time.sleep(2.0)
        proxy.swallow[direction] = False

    return inject


def slow_links(run: Run) -> None:
    for proxy in (run.stack.redis_proxy, run.stack.pg_proxy):
        proxy.delay_ms = 100  # each way: 200 ms more for each answer
    time.sleep(2.0)
    for proxy in (run.stack.redis_proxy, run.stack.pg_proxy):
        proxy.delay_ms = 0


def lossy_links(run: Run) -> None:
    for proxy in (run.stack.redis_proxy, run.stack.pg_proxy):
        proxy.random.seed(run.rng.random())
        proxy.cut_chance = 0.05
    time.sleep(2.5)
    for proxy in (run.stack.redis_proxy, run.stack.pg_proxy):
        proxy.cut_chance = 0


def cut_at_every_byte(which: str, direction: str, most: int, step: int):
    def inject(run: Run) -> None:
        proxy = getattr(run.stack, f"{which}_proxy")
        for n in range(0, most, step):
            proxy.cut_after[direction] = n
            proxy.drop_all()
            time.sleep(0.05)
        proxy.cut_after[direction] = None
        proxy.drop_all()

    return inject


# ---- 21, 22: clients ----


def clients_hang_up(run: Run) -> None:
    """Ten thousand that reset, half-close, or leave while they wait."""
    ports = [instance.port for instance in run.stack.instances]

    def some(offset: int) -> None:
        for n in range(offset, 10000, 4):
            user, began = f"u{n % run.fault.users}", time.time()
            request = (
                f"POST /seckill/{run.vouchers[0]} HTTP/1.1\r\nHost: x\r\nX-User-Id: {user}\r\n"
                "Content-Length: 0\r\n\r\n"
            ).encode()
            with socket.create_connection(("127.0.0.1", ports[n % len(ports)]), timeout=5) as link:
                how = n % 4
                link.sendall(request[: len(request) // 2] if how == 3 else request)
                if how == 0:  # RST
                    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                elif how == 1:
                    link.shutdown(socket.SHUT_WR)
            run.history.append(Event(began, time.time(), "hung", user, run.vouchers[0], n % len(ports)))

    threads = [threading.Thread(target=some, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def slowloris(run: Run) -> None:
    """Nearly all connections of each instance are taken by those who send, or read, as slowly as they can; the
    crowd is served meanwhile."""
    links = []
    target = f"POST /seckill/{run.vouchers[0]} HTTP/1.1\r\nHost: x\r\n".encode()
    heads = [
        target + b"X-Slow: ",
        target + b"X-User-Id: slow\r\nContent-Length: 1000\r\n\r\n",
        b"GET /vouchers HTTP/1.1\r\nHost: x\r\n\r\n" * 200,
    ]
    for n in range(200 * len(run.stack.instances)):
        port = run.stack.instances[n % len(run.stack.instances)].port
        link = socket.create_connection(("127.0.0.1", port), timeout=5)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        link.setblocking(False)
        links.append((link, heads[n % 3], bytearray(heads[n % 3])))
    began, until = time.time(), time.monotonic() + 4
    while time.monotonic() < until:
        for n, (link, head, left) in enumerate(links):
            try:
                if n % 3 == 2:
                    link.send(head)
                else:
                    link.send(left[:20] or b"x")
                    del left[:20]
            except OSError:
                pass
        time.sleep(0.2)
    others_were_served(run, began, time.time())
    for link, _, _ in links:
        link.close()


def others_were_served(run: Run, began: float, ended: float) -> None:
    """By each instance, while the fault was on."""
    for instance in run.stack.instances:
        here = [event for event in run.history if event.instance == instance.number and event.what == "buy"]
        heard = [event.outcome for event in here if began <= event.began and event.ended <= ended]
        definite = len(heard) - heard.count("unknown")
        if definite < 50 or definite < 0.95 * len(heard):
            run.seen_meanwhile.append(f"{instance.name} served {definite} of {len(heard)} during the attack")


# ---- 23: clocks ----


def clock_env(run: Run, file: Path) -> dict[str, str]:
    """What a process needs to live by the clock in `file`."""
    library = run.stack.folder / "clock.so"
    source = Path(__file__).with_name("clock.c")
    done = subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], capture_output=True, text=True)
    if done.returncode != 0:
        raise Broken(f"clock.c: {done.stderr}")
    file.write_bytes(struct.pack("q", 0))
    return {"LD_PRELOAD": str(library), "CLOCK_FILE": str(file)}


def step(file: Path) -> None:
    with open(file, "r+b", buffering=0) as clock:
        for seconds in (60, -60, 3600, -3600, 0):
            clock.seek(0)
            clock.write(struct.pack("q", seconds))
            time.sleep(0.6)


def service_clock_steps(run: Run) -> None:
    file = run.stack.folder / "clock"
    env = clock_env(run, file)
    for instance in run.stack.instances:
        instance.end(signal.SIGTERM)
        instance.run(env)
        instance.wait_ready()
    step(file)


def redis_clock_steps(run: Run) -> None:
    file = run.stack.folder / "clock"
    run.redis.preload = clock_env(run, file)
    run.redis.end(signal.SIGTERM)
    run.redis.run(*run.stack.redis_settings)
    step(file)
    run.redis.preload = {}


# ---- 26 to 29: resources, the end, a liar ----


START_S = 10.0


def another(run: Run, env: dict[str, str]) -> Instance:
    """An instance beside those of the crowd, started."""
    one = Instance(90, run.stack.folder, run.stack.binary, run.stack.store_urls(False) | env)
    one.run()
    return one


def every_allocation_fails(where: str, most: int, step_by: int):
    """An instance beside the others, again and again: it may refuse to start, or a request; nothing else. Each
    step_by-th allocation, or each of them in full size."""

    def inject(run: Run) -> None:
        number, fired = 1, 0
        while number <= most:
            one = another(run, {"SECKILL_FAIL_MALLOC": f"{number}{where}"})
            deadline = time.monotonic() + run.patience(START_S)
            while not (is_ready := ready(one)) and one.alive() and time.monotonic() < deadline:
                time.sleep(0.01)
            hangs = not is_ready and one.alive()
            for n in range(3):
                if is_ready and one.alive():
                    run.buy(f"m{number}-{n}", one)
            code = one.end(signal.SIGTERM)
            says_why = "level=error" in one.text() or "seckill: " in one.text()
            if hangs or not (code == 0 and is_ready or code in (1, 2) and says_why and not where):
                how = "was never ready" if hangs else f"ended with {code}"
                run.leaks.append(f"allocation {number}{where}: {how}: {one.text()[-200:]}")
            if "name=malloc" not in one.text():
                break
            fired += 1
            number += 1 if run.terms.full else step_by
        if fired == 0:
            raise Broken("no allocation failed")

    return inject


def ready(one: Instance) -> bool:
    return one.ask("GET", "/readyz")[0] == 200


def descriptors_exhausted(run: Run) -> None:
    import resource

    old = resource.prlimit(run.first.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(run.first.pid, resource.RLIMIT_NOFILE, (run.first.fds() + 2, old[1]))
    run.stack.redis.call("CLIENT", "KILL", "TYPE", "normal")  # it has to connect again, and cannot
    time.sleep(1.5)
    resource.prlimit(run.first.pid, resource.RLIMIT_NOFILE, old)


def terminated(run: Run) -> None:
    code = run.first.end(signal.SIGTERM, 10)
    if code != 0:
        run.leaks.append(f"SIGTERM: ended with {code}")


def hostile_redis(run: Run) -> None:
    """An instance of its own meets a Redis that lies; it must not crash, and sell nothing."""
    for lie in HostileRedis.LIES:
        with HostileRedis(lie) as server:
            one = another(run, {"SECKILL_REDIS_URL": f"redis://127.0.0.1:{server.port}"})
            statuses = set()
            for n in range(8):
                statuses.add(one.ask("POST", f"/seckill/{run.vouchers[0]}", f"liar-{n}", timeout=2)[0])
                time.sleep(0.05)
            code = one.end(signal.SIGTERM)
            if code != 0 or not statuses <= {0, 503, 404}:
                run.leaks.append(f"hostile Redis, {lie}: answers {statuses}, ended with {code}: {one.text()[-200:]}")


def at(point: str, number: int = 1) -> dict[str, str]:
    return {"SECKILL_FAILPOINTS": f"{point}=kill@{number}"}


# Patient with Redis, so that what it was about to say is still said when it goes on.
STOPPED_CORRECTING = {"SECKILL_FAILPOINTS": "writer.correcting=stop", "SECKILL_REDIS_TIMEOUT_MS": "15000"}
SMALL_BATCHES = {"SECKILL_BATCH_MAX": "8"}  # many of them wait their turn
STOPPED_COUNTING = {
    "SECKILL_FAILPOINTS": "admit.counted=stop",
    "SECKILL_REDIS_TIMEOUT_MS": "5000",  # longer than it is stopped
    "SECKILL_SOLD_OUT_MARK_MS": "2000",
}
STOPPED_RECONCILING = {"SECKILL_FAILPOINTS": "reconcile.buyers=stop"}

# The bounds of a row, for a crowd of 350 a second of whom two in three are new:
# - refused_202: what Redis loses while it is in no other place is asked for again, and may be gone by then. That is
#   what waits for PostgreSQL: a tenth of a second's orders at most times, all of half a second's where orders are
#   held. Who bought again in between has another order (6f). Where Redis loses nothing, nobody is refused.
# - rebuilds: one for each loss, or restart, of Redis, and one by an instance that looked just before; where a
#   reconcile is interrupted, that one too.
# - unknown: the part of the run in which the buyers get no answer though Redis, asked directly, gives one (what it
#   does not answer us is not counted). A fault begins at three tenths of the run.
FAULTS = [
    Fault("1a", "killed: script sent", killed_at, first_env=at("place.sent", 60), unknown=0.15),
    Fault("1b", "killed: script answered", killed_at, first_env=at("place.answered", 60), unknown=0.15),
    Fault("1c", "killed: batch made, nothing sent", killed_at, first_env=at("writer.collected", 40), unknown=0.15),
    Fault("1d", "killed: INSERT and COMMIT sent", killed_at, first_env=at("writer.sent", 40), short=True, unknown=0.15),
    Fault(
        "1e", "killed: committed, journal not cleared", killed_at,
        first_env=at("writer.committed", 40), short=True, unknown=0.15,
    ),
    Fault("1f", "killed: mid-compensation", killed_correcting, first_env=at("writer.correcting"), units=2000),
    Fault(
        "1g", "killed: mid-reconcile, after the new epoch", killed_reconciling,
        first_env=at("reconcile.epoch"), rebuilds=3, unknown=0.15,
    ),
    Fault(
        "1h", "killed: mid-reconcile, voucher closed", killed_reconciling,
        first_env=at("reconcile.begun"), short=True, rebuilds=3, unknown=0.5,
    ),
    Fault(
        "1i", "killed: mid-reconcile, journal half settled", killed_reconciling,
        first_env=at("reconcile.settling"), rebuilds=3, unknown=0.5,
    ),
    Fault(
        "1j", "killed: mid-reconcile, stock read", killed_reconciling,
        first_env=at("reconcile.stock"), rebuilds=3, unknown=0.5,
    ),
    Fault(
        "1k", "killed: mid-reconcile, buyers written", killed_reconciling,
        first_env=at("reconcile.buyers"), rebuilds=3, unknown=0.5,
    ),
    Fault(
        "1l", "killed: mid-reconcile, before opening", killed_reconciling,
        first_env=at("reconcile.opening"), rebuilds=3, unknown=0.5,
    ),
    Fault(
        "1m", "killed: granting again", killed_reconciling,
        env=SMALL_BATCHES, first_env=at("regrant.asked"), rebuilds=3, unknown=0.5,
    ),
    Fault(
        "1n", "stopped mid-compensation, another compensates", compensated_twice,
        first_env=STOPPED_CORRECTING, units=2000,
    ),
    Fault("1o", "an order that Redis does not know, bought again", bought_twice, units=2000),
    Fault("2", "stopped for 2.5 s, another instance recovers", stopped_and_continued, seconds=4.0, short=True),
    Fault("3a", "2 instances, each user at all of them at once", nothing, spread=True, short=True),
    Fault("3b", "3 instances, each user at all of them at once", nothing, spread=True, instances=3),
    Fault("4a", "Redis killed, appendfsync always", redis_killed, short=True, rebuilds=2, unknown=0.35),
    Fault("4b", "Redis killed, appendfsync everysec", redis_killed, appendfsync="everysec", rebuilds=2, unknown=0.35),
    Fault(
        "5a", "Redis's file cut inside its last transaction", redis_cut_inside_its_last_transaction,
        refused_202=25, rebuilds=2, unknown=0.15,
    ),
    Fault(
        "5b", "Redis's file cut one second earlier", redis_back_a_second,
        short=True, refused_202=25, rebuilds=2, unknown=0.15,
    ),
    Fault("6a", "FLUSHALL", flushall, refused_202=25, rebuilds=2, unknown=0.1),
    Fault(
        "6b", "FLUSHALL while orders wait for PostgreSQL", flushall_while_orders_wait,
        env=SMALL_BATCHES, short=True, refused_202=120, rebuilds=2, unknown=0.15,
    ),
    Fault("6c", "Redis comes back empty while orders wait", redis_erased, refused_202=120, rebuilds=2, unknown=0.3),
    Fault(
        "6d", "Redis empty, and all sold by the time an order wakes", sold_out_meanwhile,
        units=400, env=SMALL_BATCHES, refused_202=120, rebuilds=2, unknown=0.3,
    ),
    Fault(
        "6f", "Redis rebuilt while an instance with orders is stopped", rebuilt_meanwhile,
        units=2000, env=SMALL_BATCHES, refused_202=60, rebuilds=2, unknown=0.2,
    ),
    Fault(
        "6e", "buyers lost in the middle of a reconcile", rolled_back_mid_reconcile,
        first_env=STOPPED_RECONCILING, rebuilds=3, unknown=0.35,
    ),
    Fault(
        "6g", "FLUSHALL while the buyers are read", flushed_while_buyers_are_read,
        units=100, first_env=STOPPED_COUNTING, rebuilds=2, unknown=0.35,
    ),
    Fault("7a", "an old copy of Redis's data restored", old_copy_restored, refused_202=25, rebuilds=2, unknown=0.15),
    Fault(
        "7b", "old keys restored in the same process", old_copy_restored_in_place,
        may_differ=True, refused_202=25, rebuilds=2,
    ),
    Fault(
        "7c", "an old copy restored, the winners since ask again", restarted_behind,
        units=2000, refused_202=25, rebuilds=2, unknown=0.85,  # as 7a: what was accepted since the copy is lost
    ),
    Fault("8", "SCRIPT FLUSH in a loop", scripts_flushed),
    Fault("9", "Redis's memory full", redis_memory_full, unknown=0.45),
    Fault("10", "Redis's disk full", redis_disk_full, fresh_redis=True, rebuilds=4, unknown=0.85),
    Fault("11a", "Redis stopped for 5 s", redis_paused, unknown=0.85),
    Fault("11b", "Redis busy with a script", redis_busy, unknown=0.85),
    Fault(
        "12a", "a replica promoted that missed the last 0.4 s", replica_promoted,
        proxied=True, refused_202=25, rebuilds=2, unknown=0.1,
    ),
    Fault("12b", "Redis demoted to a replica, and back", redis_demoted, rebuilds=2, unknown=0.6),
    Fault("13a", "PostgreSQL stopped immediately, restarted", postgres_restarted, short=True),
    Fault("13b", "PostgreSQL away for 3 s", postgres_away),
    Fault("13c", "both stores away", both_away, rebuilds=2, unknown=0.85),
    Fault("14", "backends terminated every 50 ms", backends_terminated, seconds=4.0),
    Fault("15", "PostgreSQL's disk full", postgres_disk_full),
    Fault("16a", "LOCK TABLE for 30 s", orders_locked),
    Fault("16b", "commits held: no 201, users locked", commits_held, rate=0, short=True),
    Fault("17", "overlapping batches in opposite order, 2 vouchers", nothing, vouchers=2, spread=True, opposite=True),
    Fault("18", "PostgreSQL read-only", read_only),
    Fault("19a", "half-open: nothing reaches Redis", half_open("redis", "up"), proxied=True, unknown=0.85),
    Fault("19b", "half-open: nothing comes from Redis", half_open("redis", "down"), proxied=True, unknown=0.85),
    Fault("19c", "half-open: nothing reaches PostgreSQL", half_open("pg", "up"), proxied=True),
    Fault("19d", "half-open: nothing comes from PostgreSQL", half_open("pg", "down"), proxied=True),
    Fault("20a", "both links 200 ms slower", slow_links, proxied=True),
    Fault("20b", "both links lose 5 %", lossy_links, proxied=True, unknown=0.3),
    Fault(
        "20c", "Redis's answers cut at every byte", cut_at_every_byte("redis", "down", 120, 3),
        proxied=True, unknown=0.85,
    ),
    Fault("20d", "PostgreSQL's answers cut at every byte", cut_at_every_byte("pg", "down", 400, 9), proxied=True),
    Fault(
        "20e", "requests to Redis cut at every byte", cut_at_every_byte("redis", "up", 200, 5),
        proxied=True, unknown=0.85,
    ),
    # Ten thousand clients take the crowd's own time, too.
    Fault("21", "10,000 clients reset, half-close, hang up", clients_hang_up, seconds=5.0, unknown=0.2),
    Fault(
        "22", "slow headers, bodies and readers, 200 of 256", slowloris,
        env={"SECKILL_MAX_CONNECTIONS": "256"}, seconds=6.0,
    ),
    Fault("23a", "the service's clock steps 1 min and 1 h, both ways", service_clock_steps, seconds=4.0, unknown=0.15),
    Fault(
        "23b", "Redis's clock steps 1 min and 1 h, both ways", redis_clock_steps,
        seconds=4.0, rebuilds=2, unknown=0.15,
    ),
    Fault("24a", "broken journal entries among good ones", broken_entries, letters=7, short=True),
    Fault("24b", "an entry that PostgreSQL refuses for good", refused_by_postgres, seconds=6.0, units=2000, rebuilds=1),
    Fault("25a", "the journal deleted while orders wait", journal_deleted),
    Fault("25b", "the journal trimmed while orders wait", journal_trimmed),
    Fault("26a", "the n-th allocation of a start fails", every_allocation_fails("", 400, 7), seconds=2.0),
    Fault("26b", "the n-th allocation of a request fails", every_allocation_fails("@request", 60, 1), seconds=2.0),
    Fault("27", "descriptors exhausted", descriptors_exhausted),
    Fault("28", "SIGTERM under load", terminated, short=True),
    Fault("29", "a hostile Redis", hostile_redis),
]

from rows import ROWS  # noqa: E402  those use what stands above

FAULTS += ROWS
