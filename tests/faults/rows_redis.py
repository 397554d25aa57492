"""A full, busy, stopped, demoted or lying Redis: 8 to 12, 29."""

from __future__ import annotations

import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

from driver import Run
from fault import Fault
from hostile import HostileRedis
from rows_tools import another, fill, restart
from stack import Broken, free_port, redis_url, wait_for


def scripts_flushed(run: Run) -> None:
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        run.redis.call("SCRIPT", "FLUSH")
        time.sleep(0.005)


def redis_memory_full(run: Run) -> None:
    run.redis.call("CONFIG", "SET", "maxmemory", "1")
    time.sleep(0.8)
    run.redis.call("CONFIG", "SET", "maxmemory", "0")


NO_ROOM = "Can't recover from AOF write error"


def redis_disk_full(run: Run) -> None:
    """Redis exits when it cannot write its file under appendfsync always. Started again it loads its data, and exits at
    the first write, until there is room."""
    disk = run.stack.small_disk("disk", 3 + megabytes_of(run.redis.dir))
    run.redis.end(signal.SIGTERM)
    target = disk / "redis"
    shutil.copytree(run.redis.dir, target)
    own, run.redis.dir = run.redis.dir, target
    try:
        run.redis.run(*run.stack.redis_settings)
        ballast = disk / "ballast"
        fill(ballast)
        wait_for("Redis's end", lambda: not run.redis.alive())
        with suppress(Broken):  # it may end before it has answered
            run.redis.run(*run.stack.redis_settings)
        wait_for("its second end", lambda: not run.redis.alive() and run.redis.log.read_text().count(NO_ROOM) == 2)
        ballast.unlink()
    finally:
        run.redis.end(signal.SIGTERM)
        run.redis.dir = own
        shutil.rmtree(own)
        shutil.copytree(target, own)
        run.stack.unmount(disk)
    run.redis.run(*run.stack.redis_settings)


def megabytes_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*")) >> 20


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
    replica = run.stack.new_replica()
    time.sleep(0.3)
    replica.call("REPLICAOF", "127.0.0.1", free_port())  # the link is cut
    time.sleep(0.4)
    run.redis.end(signal.SIGKILL)
    replica.call("REPLICAOF", "NO", "ONE")
    run.stack.redis_proxy.upstream = replica.port
    run.stack.redis, run.stack.others = replica, [run.redis]
    run.stack.redis_settings = ()  # the next fault starts its own


def redis_demoted(run: Run) -> None:
    """It becomes a replica while connections are open, and then a master again."""
    run.redis.call("REPLICAOF", "127.0.0.1", free_port())
    time.sleep(0.8)
    run.redis.call("REPLICAOF", "NO", "ONE")


def both_masters(run: Run) -> None:
    """A replica is promoted and only one instance follows; both sell for a while. Then all follow."""
    second = run.stack.instances[1]
    own = run.stack.another_proxy(run.redis.port)
    restart(second, {"SECKILL_REDIS_URL": redis_url(own.port)})
    old, replica = run.redis, run.stack.new_replica()
    replica.call("REPLICAOF", "NO", "ONE")
    own.upstream = replica.port
    own.drop_all()
    time.sleep(1.5)  # two masters
    run.stack.redis_proxy.upstream = replica.port
    run.stack.redis_proxy.drop_all()
    run.stack.redis, run.stack.others = replica, [old]
    run.stack.redis_settings = ()  # the next fault starts its own
    run.healed()
    old.end(signal.SIGKILL)
    second.env |= {"SECKILL_REDIS_URL": redis_url(own.port)}


def hostile_redis(run: Run) -> None:
    """A separate instance connects to a lying Redis: it must neither crash nor sell."""
    for lie in HostileRedis.LIES:
        with HostileRedis(lie) as server:
            one = another(run, {"SECKILL_REDIS_URL": redis_url(server.port)})
            statuses = set()
            for n in range(8):
                statuses.add(one.ask("POST", f"/seckill/{run.vouchers[0]}", f"liar-{n}", timeout=2)[0])
                time.sleep(0.05)
            code = one.end(signal.SIGTERM)
            if code != 0 or not statuses <= {0, 503, 404}:
                run.leaks.append(f"hostile Redis, {lie}: answers {statuses}, ended with {code}: {one.text()[-200:]}")


ROWS = [
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
    Fault(
        "12c",
        "two masters, each with an instance, for 1.5 s",
        both_masters,
        proxied=True,
        units=2000,
        seconds=4.0,
        rate=250,
        rebuilds=20,
        refused_202=120,
        unknown=0.6,
    ),
    Fault("29", "a hostile Redis", hostile_redis),
]
