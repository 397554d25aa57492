"""The cost of a voucher after its sale: 56. (50,000 live orders among a million ended ones: ./dev rebuild --ended.)"""

from __future__ import annotations

import signal

from driver import Run
from fault import Fault
from rows_tools import HOUR_S, buy, clock_env, key, open_voucher, set_clock, within
from stack import Deadline, wait_for

TRIES_S = 9.0  # an idle voucher is checked at least every five seconds, and two checks are needed
WINNERS = 10
AT_ONCE = {"SECKILL_RETIRE_AFTER_MS": "0"}


def sold(run: Run, end_s: float, **terms) -> str:
    voucher = open_voucher(run, 50, end_s=end_s, **terms)
    for n in range(WINNERS):
        buy(run, voucher, f"winner{n}", n % 2)
    return voucher


def epoch(run: Run, voucher: str) -> str:
    return run.postgres.sql(f"select epoch from voucher_stock where voucher_id = {voucher}")[0][0]


def stays_as_it_is(run: Run, vouchers: list[str], seconds: float) -> None:
    """However often retiring is tried: no new epoch, Redis is not closed, and winners get their order."""
    before = {voucher: epoch(run, voucher) for voucher in vouchers}
    until, n = Deadline(seconds), 0
    while not until.passed():
        for voucher in vouchers:
            again = run.definite(lambda voucher=voucher: buy(run, voucher, f"winner{n % WINNERS}", n % 2))
            if again.code != "ALREADY_ORDERED":
                run.seen_meanwhile.append(f"a winner of {voucher} was told {again.status} {again.code}")
        n += 1
    for voucher in vouchers:
        if epoch(run, voucher) != before[voucher]:
            run.seen_meanwhile.append(f"{voucher} went from epoch {before[voucher]} to {epoch(run, voucher)}")


def something_is_open(run: Run) -> None:
    """An ended sale with an open dead letter, and one with an order that should have expired."""
    letter, unpaid = sold(run, 3.0, pay_within_s=0), sold(run, 3.0, pay_within_s=900)
    run.postgres.sql(
        "select set_aside(slot, voucher_id, '1-1', 'raw', null, 'by hand') from voucher_stock"
        f" where voucher_id = {letter}"
    )
    run.postgres.sql(f"update voucher_order set created_at = now() + interval '1 h' where voucher_id = {unpaid}")
    run.postgres.sql(f"update seckill_voucher set pay_within_s = 1 where id = {unpaid}")
    over = f"select bool_and(end_at < now() - interval '2 s') from seckill_voucher where id in ({letter}, {unpaid})"
    wait_for("both sales over", lambda: run.postgres.sql(over) == [["t"]])
    stays_as_it_is(run, [letter, unpaid], TRIES_S)
    run.postgres.sql(f"update dead_letter set ended_at = now() where voucher_id = {letter}")
    run.postgres.sql(f"update voucher_order set created_at = now() - interval '1 h' where voucher_id = {unpaid}")


def clock_ahead(run: Run) -> None:
    """By the service's clock the sale ended long ago; by those of the stores it is on."""
    file = run.stack.folder / "clock"
    env = clock_env(run, file)
    voucher = sold(run, HOUR_S, pay_within_s=0)
    set_clock(file, int(3 * HOUR_S))
    for instance in run.stack.instances:
        instance.end(signal.SIGTERM)
        instance.run(env)
        instance.wait_ready()
    stays_as_it_is(run, [voucher], TRIES_S)
    within(run, "on sale", lambda: run.redis.call("HGET", key(voucher, "voucher"), "state") == "open", 1)
    set_clock(file, 0)


ROWS = [
    Fault("56a", "an ended sale with something open", something_is_open, rate=0, env=AT_ONCE, rebuilds=2),
    Fault("56b", "a sale that is over by the service's clock alone", clock_ahead, rate=0, env=AT_ONCE, unknown=0.3),
]
