"""A damaged journal: 24, 25."""

from __future__ import annotations

import time

from driver import Run
from fault import Fault
from stack import Broken, wait_for


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
    """PostgreSQL always rejects one user's orders: they become dead letters, and are settled once it accepts them."""
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


ROWS = [
    Fault("24a", "broken journal entries among good ones", broken_entries, letters=7, short=True),
    Fault("24b", "an entry that PostgreSQL refuses permanently", refused_by_postgres, seconds=6.0, units=2000, rebuilds=1),
    Fault(
        "24c", "one that PostgreSQL refuses, beside 12 other vouchers", refused_by_postgres,
        seconds=6.0, vouchers=13, units=200, rebuilds=1,
    ),
    Fault("25a", "the journal deleted while orders wait", journal_deleted),
    Fault("25b", "the journal trimmed while orders wait", journal_trimmed),
]
