"""Redis changed by hand: any data may be read from it. The voucher must sell again within seconds, after a limited
number of rebuilds. A user who was given an order keeps it, and only unreadable entries become dead letters.
"""

from __future__ import annotations

import time

from driver import Run
from fault import Fault
from rows_tools import sells, within
from stack import wait_for

MENDED_S = 8.0
REBUILDS_EACH = 4  # both instances may find the same damage, and the next round what is left of it
ORDER = "01a1fbe1-0c46-72f8-bdd2-587980274993"
BEYOND = "99999999999999999999"
LARGEST = "9223372036854775807"


def well(run: Run) -> bool:
    """The voucher's keys are valid, and Redis has PostgreSQL's epoch."""
    keys = [run.key(part) for part in ("voucher", "buyers", "journal")]
    types = run.redis.calls(["TYPE", key] for key in keys)
    if types[0] != "hash" or types[1] not in ("hash", "none") or types[2] not in ("stream", "none"):
        return False
    state, epoch, stock = run.redis.call("HMGET", keys[0], "state", "epoch", "stock")
    expected = run.postgres.sql(f"select epoch, stock from voucher_stock where voucher_id = {run.vouchers[0]}")[0]
    if state != "open" or epoch != expected[0] or not (stock or "").isdigit():
        return False
    # While the crowd buys, the two counts are read at slightly different times; it buys less than this in between.
    return abs(int(stock) - int(expected[1])) < 400


def damaged(*damages):
    """Damages one after the other, each repaired before the next."""

    def inject(run: Run) -> None:
        for what, damage in damages:
            epoch = epoch_of(run)
            damage(run)
            mended = within(run, f"{what}: mended", lambda: well(run), MENDED_S)
            mended = mended and sells(run, run.vouchers[0], 5, what)
            used = epoch_of(run) - epoch
            if used > REBUILDS_EACH and used < 10**6:  # a jump past a number written into Redis is one rebuild
                run.seen_meanwhile.append(f"{what}: {used} epochs")
            if not mended:
                run.redis.call("DEL", *[run.key(part) for part in ("voucher", "buyers", "journal")])
                break
        end_letters(run)

    return inject


def epoch_of(run: Run) -> int:
    return int(run.postgres.sql(f"select epoch from voucher_stock where voucher_id = {run.vouchers[0]}")[0][0])


def end_letters(run: Run) -> None:
    """An unreadable entry may be kept for an operator, who writes it off; an order must not be."""
    path = f"/admin/vouchers/{run.vouchers[0]}/dead-letters"
    for letter in run.first.ask("GET", path)[1].get("dead_letters", []):
        if any(order["user_id"] != "mallory" for order in letter.get("orders", [])):
            run.seen_meanwhile.append(f"orders went to a dead letter: {letter['reason']}")
        run.first.ask("POST", f"{path}/{letter['id']}/write-off")


def entry_ahead(run: Run) -> None:
    run.redis.call("XADD", run.key("journal"), "*", "epoch", 1000000, "orders", f"{ORDER} mallory")
    time.sleep(2.2)  # until it is old enough to be found, and was found


def huge_journal_id(run: Run) -> None:
    """The entry is removed, but the stream's newest id stays, and later ids continue from it."""
    entry = "9999999999999999999-0"
    run.redis.call("XADD", run.key("journal"), entry, "epoch", 1, "orders", "x")
    run.redis.call("XDEL", run.key("journal"), entry)
    time.sleep(0.5)


def last_journal_id(run: Run) -> None:
    """After the greatest possible id there can be no other."""
    entry = "18446744073709551615-18446744073709551615"
    run.redis.call("XADD", run.key("journal"), entry, "epoch", 1, "orders", "x")
    run.redis.call("XDEL", run.key("journal"), entry)
    time.sleep(0.5)


def field(name: str, value: str):
    return lambda run: run.redis.call("HSET", run.key("voucher"), name, value)


def wrong_type(part: str):
    """The journal must be empty: its content would be lost to users whose instance ends now."""

    def damage(run: Run) -> None:
        wait_for("replaced", lambda: run.redis.call("SET", run.key(part), "x") == "OK")

    return damage


ROWS = [
    Fault(
        "41a",
        "by hand: a journal entry of an epoch ahead",
        damaged(("an epoch ahead", entry_ahead)),
        units=2000,
        seconds=4.0,
        rebuilds=REBUILDS_EACH,
        refused_202=5,
        unknown=0.3,
    ),
    Fault(
        "41b",
        "by hand: journal ids of 2^63 and more",
        damaged(("id 9999999999999999999-0", huge_journal_id), ("the last id", last_journal_id)),
        units=3000,
        seconds=4.0,
        rebuilds=2 * REBUILDS_EACH,
        refused_202=5,
        unknown=0.6,
    ),
    Fault(
        "41c",
        "by hand: epochs of 2^63 - 1, 20 digits and none",
        damaged(
            ("epoch 2^63 - 1", field("epoch", LARGEST)),
            ("epoch of 20 digits", field("epoch", BEYOND)),
            ("epoch x", field("epoch", "x")),
        ),
        units=3000,
        seconds=4.0,
        rebuilds=3 * REBUILDS_EACH,
        refused_202=5,
        unknown=0.6,
    ),
    Fault(
        "41d",
        "by hand: keys of a wrong type",
        damaged(*[(f"{part} of a wrong type", wrong_type(part)) for part in ("voucher", "buyers", "journal")]),
        units=3000,
        seconds=4.0,
        rebuilds=3 * REBUILDS_EACH,
        refused_202=5,
        unknown=0.6,
    ),
    Fault(
        "41e",
        "by hand: stock that is no number, and `last` no id",
        damaged(
            ("stock abc", field("stock", "abc")),
            ("stock -5", field("stock", "-5")),
            ("last garbage", field("last", "zz\r\n" + "x" * 43)),
            ("last ahead", field("last", "99999999999999999999-1")),
        ),
        units=3000,
        seconds=5.0,
        rebuilds=4 * REBUILDS_EACH,
        refused_202=5,
        unknown=0.6,
        may_differ=True,
    ),
    Fault(
        "41f",
        "by hand: far more in stock than there is",
        damaged(("stock 1e5", field("stock", "1e5"))),
        units=3000,
        seconds=2.0,
        rebuilds=REBUILDS_EACH,
        unknown=0.3,
        may_differ=True,
    ),
]
