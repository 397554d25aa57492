"""Sessions: which instance may settle whose entries, and when: 33c to 33j.

The session of a dead instance ends by its TTL; then others settle its entries. While a session lives, no other instance
does, however long PostgreSQL is down: otherwise its log would contain "recovering".
"""

from __future__ import annotations

import re
import signal
import threading
import time
from datetime import datetime

from driver import Run
from fault import Fault
from proxy import Proxy
from rows_tools import accepted, kill, read_order, recoveries, release, restart, session_of, takeovers, within
from stack import Broken, Instance, redis_url, wait_for

TTL_S = 0.8  # SECKILL_LOCK_TTL_MS of the suite
COMMITTED_S = 5.0  # with the defaults
SETTLED_S = 10.0  # a TTL, a check of the voucher and its judgement; plus slack for a busy machine

BACK_TRIES = 3  # to bring an instance back within a TTL of the other
LOG_S = 0.1  # between what happens and its line in the log
TAKEN, LOST = 'msg="session taken"', 'msg="session lost"'

# How many journal entries a session has, and whether it lives, at one moment.
HELD = """
local held = 0
for _, entry in ipairs(redis.call('XRANGE', KEYS[2], '-', '+')) do
  for i = 1, #entry[2], 2 do
    held = held + ((entry[2][i] == 'session' and entry[2][i + 1] == ARGV[1]) and 1 or 0)
  end
end
local time, ends_ms = redis.call('TIME'), redis.call('ZSCORE', KEYS[1], ARGV[1])
local lives = ends_ms and tonumber(ends_ms) > time[1] * 1000 + math.floor(time[2] / 1000)
return { lives and 1 or 0, held }
"""


def held_by(run: Run, session: str) -> tuple[bool, int]:
    """Whether it lives, and how many entries name it."""
    keys = ["seckill:{shared}:sessions", run.key("journal")]
    if run.stack.cluster is not None:  # two nodes: its entries first, which may only become fewer once it is dead
        held = sum(session in entry[1] for entry in run.redis.call("XRANGE", keys[1], "-", "+"))
        return run.redis.call("ZSCORE", keys[0], session) is not None, held
    lives, held = run.redis.call("EVAL", HELD, 2, *keys, session)
    return lives == 1, held


def stranded_orders(run: Run, count: int = 10) -> list:
    """Accepted by the first instance while nothing can be committed."""
    return [accepted(run, run.vouchers[0], f"stranded{n}") for n in range(count)]


def none_recovers(run: Run, why: str) -> None:
    for instance in run.stack.instances:
        if takeovers(instance):
            run.seen_meanwhile.append(f"{instance.name} settled entries of a living session: {why}")


def killed_with_orders(run: Run) -> None:
    """Its orders stay in the journal exactly until its session is gone."""
    session, holder = session_of(run.first), run.hold_orders(20)
    stranded_orders(run)
    kill(run)
    _, before = held_by(run, session)
    release(run)
    holder.wait()

    def settled() -> bool:
        lives, held = held_by(run, session)
        if lives and held < before:
            run.seen_meanwhile.append(f"{before - held} entries of a living session were settled")
        return held == 0

    within(run, "orders of a dead instance settled", settled, SETTLED_S)
    if not recoveries(run.stack.instances[1]):
        run.seen_meanwhile.append("they were not settled by the other instance")


def killed_at_the_defaults(run: Run) -> None:
    """With the defaults: the time until another instance has committed the orders answered with 202."""
    holder = run.hold_orders(20)
    orders = stranded_orders(run)
    kill(run)
    release(run)
    holder.wait()
    rows = "select count(*) from voucher_order where user_id like 'stranded%'"
    within(run, "the orders of a dead instance committed", lambda: run.postgres.sql(rows) == [[str(len(orders))]], COMMITTED_S)


def paused_while_another_settles(run: Run) -> None:
    """Both write the same orders with the same ids and epoch: one settlement."""
    session, other = session_of(run.first), run.stack.instances[1]
    holder = run.hold_orders(12)
    orders = stranded_orders(run, 20)
    run.first.signal(signal.SIGSTOP)
    within(run, "taken over by the other", lambda: recoveries(other) > 0, SETTLED_S)
    run.first.signal(signal.SIGCONT)
    within(run, "the session lost", lambda: "session lost" in run.first.text(), SETTLED_S)
    within(run, "taken again", lambda: run.first.text().count(f'session taken" session={session}') > 1, SETTLED_S)
    release(run)
    holder.wait()
    for order in orders:
        read_order(run, order, 1)


def postgres_away_for_long(run: Run) -> None:
    """Several times as long as a session lives without renewal."""
    run.postgres.stop_immediate()
    time.sleep(5 * TTL_S)
    run.postgres.run()
    wait_for("an empty journal", lambda: run.redis.call("XLEN", run.key("journal")) <= 1)
    none_recovers(run, "PostgreSQL was away")


def redis_restarted(run: Run) -> None:
    """All sessions have ended meanwhile, and each instance returns when it can."""
    holder = run.hold_orders(1.5)
    time.sleep(0.3)
    run.redis.end(signal.SIGKILL)
    time.sleep(2 * TTL_S)
    run.redis.run(*run.stack.redis_settings)
    holder.wait()
    time.sleep(TTL_S)
    none_recovers(run, "Redis was restarted")


def moments(instance: Instance, what: str) -> list[float]:
    """When its log has such a line."""
    found = re.findall(rf"^ts=(\S+)Z .*{what}", instance.text(), re.MULTILINE)
    return [datetime.fromisoformat(one + "+00:00").timestamp() for one in found]


def one_comes_back_later(run: Run) -> None:
    """Redis is paused for longer than a session lives. The second instance gets its link back later than the first, but
    within a TTL: until then its session is gone, but it must not be judged dead."""
    own = run.stack.another_proxy(run.redis.port)
    restart(run.stack.instances[1], {"SECKILL_REDIS_URL": redis_url(own.port)})
    if not any(came_back_in_time(run, own, number) for number in range(BACK_TRIES)):
        raise Broken(f"in {BACK_TRIES} tries the second instance was never back within a TTL")


def came_back_in_time(run: Run, own: Proxy, number: int) -> bool:
    """Whether it was back within a TTL of the first, and stayed. On a machine that is late it may not be: then its session
    has ended, and the first may settle its orders, but never before that TTL is over."""
    first, second = run.stack.instances
    ttl_s = float(run.fault.env["SECKILL_LOCK_TTL_MS"]) / 1000
    wait_for("selling", lambda: run.buy(f"early{number}", 1).outcome == "ok")
    holder = run.hold_orders(20)
    for n in range(10):
        accepted(run, run.vouchers[0], f"stranded{number}-{n}", 1)
    taken, taken_later = len(moments(first, TAKEN)), len(moments(second, TAKEN))
    lost, settled = len(moments(second, LOST)), [takeovers(one) for one in run.stack.instances]
    own.swallow.update(up=True, down=True)
    own.drop_all()
    run.redis.signal(signal.SIGSTOP)
    time.sleep(ttl_s + 0.3)
    run.redis.signal(signal.SIGCONT)
    within(run, "the first instance back", lambda: len(moments(first, TAKEN)) > taken, SETTLED_S)
    time.sleep(ttl_s / 2)
    own.swallow.update(up=False, down=False)
    own.drop_all()
    within(run, "the second instance back", lambda: len(moments(second, TAKEN)) > taken_later, SETTLED_S)
    time.sleep(ttl_s)
    ran = [takeovers(one) - before for one, before in zip(run.stack.instances, settled)]
    backs, laters = moments(first, TAKEN)[taken:], moments(second, TAKEN)[taken_later:]
    stayed = len(backs) == len(laters) == 1 and len(moments(second, LOST)) == lost + 1
    in_time = stayed and laters[0] - backs[0] < ttl_s - LOG_S
    too_soon = any(back < at < back + ttl_s - LOG_S for back in backs for at in moments(first, "recovering journal entries"))
    for one, entries in zip(run.stack.instances, ran):
        if entries and (in_time or too_soon):
            run.seen_meanwhile.append(f"{one.name} settled entries of a living session: its instance came back a moment later")
    release(run)
    holder.wait()
    return in_time or bool(run.seen_meanwhile)


def sessions_flushed(run: Run) -> None:
    holder = run.hold_orders(0.5)
    time.sleep(0.2)
    run.redis.call("FLUSHALL")
    holder.wait()
    names = lambda: set(run.redis.call("ZRANGE", "seckill:{shared}:sessions", 0, -1))
    due = {session_of(instance) for instance in run.stack.instances}
    within(run, "the sessions taken again", lambda: names() == due, SETTLED_S)
    none_recovers(run, "FLUSHALL")


def ended_with_orders(run: Run) -> None:
    """It cannot commit, and ends with its session when its time is over: no other instance waits for a TTL."""
    ttl_s = float(run.fault.env["SECKILL_LOCK_TTL_MS"]) / 1000
    time.sleep(ttl_s)  # a younger session judges no other one dead
    session, holder = session_of(run.first), run.hold_orders(20)
    stranded_orders(run)
    ending = threading.Thread(target=run.first.end, args=(signal.SIGTERM,))
    ending.start()
    within(run, "ended in order", lambda: not run.first.alive(), SETTLED_S)
    ending.join()
    lives, held = held_by(run, session)
    if lives or run.redis.call("ZSCORE", "seckill:{shared}:sessions", session) is not None:
        run.seen_meanwhile.append("an instance that has ended left its session")
    if held == 0:
        run.seen_meanwhile.append("nothing was left to settle, which proves nothing")
    release(run)
    holder.wait()
    # A killed instance keeps its session for at least two thirds of its TTL.
    within(run, "its orders settled", lambda: held_by(run, session)[1] == 0, ttl_s * 0.6)


DEFAULTS = {"SECKILL_LOCK_TTL_MS": "3000", "SECKILL_PG_TIMEOUT_MS": "5000", "SECKILL_REDIS_TIMEOUT_MS": "1000"}
LONG_TTL = {"SECKILL_LOCK_TTL_MS": "10000", "SECKILL_DRAIN_TIMEOUT_MS": "1200"}

ROWS = [
    Fault(
        "33c",
        "an instance with orders killed: settled by another",
        killed_with_orders,
        short=True,
        units=2000,
        unknown=0.4,
    ),
    Fault(
        "33d",
        "paused longer than its TTL, resumed amid the settling",
        paused_while_another_settles,
        units=2000,
        rate=50,
        unknown=0.2,
    ),
    Fault("33e", "PostgreSQL away for five TTLs", postgres_away_for_long, seconds=5.0, units=2000),
    Fault("33f", "Redis away for two TTLs", redis_restarted, units=2000, rebuilds=3, refused_202=5, unknown=0.3),
    Fault("33g", "FLUSHALL while sessions live", sessions_flushed, rebuilds=2, refused_202=120, unknown=0.15),
    Fault(
        "33h",
        "SIGTERM with orders that cannot be committed",
        ended_with_orders,
        env=LONG_TTL,
        rate=0,
        unknown=1.0,
        alone=True,
    ),
    Fault(
        "33i",
        "Redis stands still for a TTL, an instance back late",
        one_comes_back_later,
        env={"SECKILL_LOCK_TTL_MS": "2000"},
        units=2000,
        rate=0,
        unknown=1.0,
    ),
    Fault(
        "33j",
        "killed, default settings: its 202s are committed soon",
        killed_at_the_defaults,
        env=DEFAULTS,
        rate=0,
        unknown=1.0,
        alone=True,
    ),
]
