"""Vouchers after their sale, and their open work: 43 to 46."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter

from crowd import Event, Link
from driver import Run
from fault import Fault
from machine import Deadline
from rows_tools import accepted, buy, crowd, key, open_voucher, read_order, restart, terms, within
from stack import Broken, wait_for

REFUSE_ALL = (
    "create function refuse_some() returns trigger language plpgsql as $$ begin"
    " if new.voucher_id = %s and new.status <> 'refused' then raise 'no'; end if; return new; end $$;"
    "create trigger refuse_some before insert on voucher_order for each row execute function refuse_some()"
)

def ended_yesterday(run: Run) -> None:
    """An accepted order waits in a dead letter for an operator, who comes after the weekend."""
    voucher = open_voucher(run, 50)
    run.postgres.sql(REFUSE_ALL % voucher)
    path = f"/admin/vouchers/{voucher}/dead-letters"
    try:
        order = accepted(run, voucher, "bob")
        wait_for("dead letter", lambda: run.first.ask("GET", path)[1].get("dead_letters"), 20)
        ends = "update seckill_voucher set begin_at = begin_at - interval '3 days', end_at = end_at - interval '3 days'"
        run.postgres.sql(f"{ends} where id = {voucher}")
        for instance in range(2):
            read_order(run, order, instance)
        run.postgres.sql(f"{ends.replace(' - ', ' + ')} where id = {voucher}")
    finally:
        run.postgres.sql("drop trigger refuse_some on voucher_order; drop function refuse_some()")
    for letter in run.first.ask("GET", path)[1].get("dead_letters", []):
        run.first.ask("POST", f"{path}/{letter['id']}/requeue")


def retired(run: Run, voucher: str) -> bool:
    """Retired in both stores."""
    states = run.postgres.sql(f"select state from seckill_voucher where id = {voucher}")
    return states == [["retired"]] and run.redis.call("HGET", key(voucher, "voucher"), "state") == "retired"


def buyers_stay(run: Run) -> None:
    """A sale has ended and is settled: Redis need not keep its buyers any more. PostgreSQL does."""
    voucher = open_voucher(run, 200, end_s=2.0, pay_within_s=0)  # so that none of its orders is still to expire
    buyers = crowd(run, [voucher], 1.2, 300, 300)
    buyers.join()
    winners = {e.user: e.order for e in run.history if e.voucher == voucher and e.status in (201, 202)}
    left = ["EXISTS", *[key(voucher, part) for part in ("journal", "buyers")]]
    over = lambda: retired(run, voucher) and run.redis.call(*left) == 0
    within(run, "the buyers of a sale that is over forgotten", over, RETIRED_S)
    for n, (winner, order) in enumerate(list(winners.items())[:20]):
        again = asked_until_told(run, voucher, winner, n % 2)
        if (again.code, again.order) != ("ALREADY_ORDERED", order):
            run.seen_meanwhile.append(f"{winner} had {order} and was told {again.code} {again.order}")
    stranger = asked_until_told(run, voucher, "stranger", 0)
    if stranger.code != "ENDED":
        run.seen_meanwhile.append(f"a stranger was told {stranger.status} {stranger.code}")
    if not retired(run, voucher):
        run.seen_meanwhile.append("loaded again, because it was asked for")


def asked_until_told(run: Run, voucher: str, user: str, instance: int) -> Event:
    """503 is not a final answer: the client retries."""
    deadline = Deadline(5)
    while (event := buy(run, voucher, user, instance)).outcome == "unknown" and not deadline.passed():
        time.sleep(0.05)
    return event


# ---- new vouchers, and made-up ids ----

NEW_VOUCHERS = 12


def sold_elsewhere(run: Run) -> None:
    """Each is made on the first instance and bought at the other at once; before the second half, that one's connection
    for notifications is terminated."""
    run.stack.postgres.sql(
        "do $$ begin create role seckill_other login in role seckill_service;"
        " exception when duplicate_object then null; end $$"
    )
    restart(run.stack.instances[1], run.stack.database("seckill_other", run.stack.shards[0].port))
    listening = "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'seckill_other'"
    for n in range(NEW_VOUCHERS):
        if n >= NEW_VOUCHERS / 2:
            run.stack.postgres.sql(f"{listening} and application_name = 'seckill-queries'")
        status, document = run.first.ask("POST", "/admin/vouchers", body=terms(run, 20))
        if status != 201:
            raise Broken(f"no voucher: {status} {document}")
        run.vouchers.append(document["id"])
        sold = asked_until_told(run, document["id"], f"keen{n}", 1)
        if sold.outcome != "ok":
            run.seen_meanwhile.append(f"new voucher {n}: {sold.status} {sold.code}")
    wrong = [e for e in run.history if e.voucher in run.vouchers and e.status == 404]
    if wrong:
        run.seen_meanwhile.append(f"{len(wrong)} of {NEW_VOUCHERS} were told 404")


def asked_for_what_is_not(run: Run) -> None:
    """Three in four requests are for vouchers and orders that do not exist. The crowd's buyers must not notice, and
    each such request gets 404, or a refusal for too many requests."""
    ports, heard = [instance.port for instance in run.stack.instances], Counter()
    newest = int(run.vouchers[0])

    def question() -> tuple[str, str]:
        number = run.rng.choice([newest + run.rng.randrange(1, 10**9), run.rng.randrange(1, max(newest, 2))])
        order = f"{run.rng.randrange(16**8):08x}-0000-7000-8000-{run.rng.randrange(16**12):012x}"
        kinds = [("POST", f"/seckill/{number}"), ("GET", f"/vouchers/{number}"), ("GET", f"/orders/{order}")]
        return run.rng.choice(kinds)

    async def work(n: int) -> None:
        link, until = Link(ports[n % len(ports)]), time.monotonic() + 2.5
        while time.monotonic() < until:
            status, _ = await link.ask(*question(), f"prober{n}")
            heard[status] += 1
        link.close()

    async def all_of_them() -> None:
        await asyncio.gather(*(work(n) for n in range(32)))

    asyncio.run(all_of_them())
    if heard.keys() - {404, 503} or heard[404] < 100:
        run.seen_meanwhile.append(f"what does not exist was answered {dict(heard)}")


# ---- a sale that is retired while an instance is paused ----


def retired_meanwhile(run: Run) -> None:
    """Redis has lost the grants of a paused instance; the sale ends and is retired without them. When the instance
    continues, its orders have no grant and can get none, so they end as refused."""
    voucher = open_voucher(run, 500, end_s=4.0, pay_within_s=0)
    holder = run.hold_orders(0.8)
    orders = [accepted(run, voucher, f"waiting{n}") for n in range(10)]
    run.first.signal(signal.SIGSTOP)
    run.redis.call("FLUSHALL")
    holder.wait()
    wait_for("rebuilt", lambda: run.redis.call("HGET", key(voucher, "voucher"), "state") == "open")
    buy(run, voucher, "in-time", 1)
    for order in orders:
        read_order(run, order, 1)  # not 404 as long as the sale has not been retired
    within(run, "retired without them", lambda: retired(run, voucher), 4 + RETIRED_S)
    run.unseen[voucher] = 500  # they were not refused for lack of units
    run.first.signal(signal.SIGCONT)
    refused = "select count(*) from voucher_order where user_id like 'waiting%' and reason = 'GRANT_LOST'"
    within(run, "its orders refused", lambda: run.postgres.sql(refused) == [[str(len(orders))]], 10)


RETIRED_S = 12.0  # an idle voucher is checked at least every five seconds, and two checks are needed
AT_ONCE = {"SECKILL_RETIRE_AFTER_MS": "0"}

ROWS = [
    Fault("43", "a dead letter's order, the sale over since yesterday", ended_yesterday, rate=50, letters=0),
    Fault("44", "buyers of a sale that is over", buyers_stay, rate=0, env=AT_ONCE, rebuilds=2),
    Fault("45a", "new vouchers bought at another instance at once", sold_elsewhere, rate=0, unknown=0.6),
    Fault("45b", "crowds of made-up ids beside buyers", asked_for_what_is_not, seconds=4.0, units=2000, unknown=0.1),
    Fault(
        "46",
        "a sale retired while an instance with orders is stopped",
        retired_meanwhile,
        rate=0,
        env=AT_ONCE | {"SECKILL_BATCH_MAX": "8"},
        rebuilds=8,
        refused_202=10,
        unknown=0.6,
    ),
]
