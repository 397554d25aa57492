"""Users who wait for a unit: 69."""

from __future__ import annotations

import time

from crowd import Crowd, Event
from driver import Run
from fault import Fault
from life import move, tell
from rows_many import flushall, killed
from rows_tools import buy, open_voucher, within
from stack import Broken, wait_for

UNITS, PASSED_ON, WAITING = 40, 12, 70  # the last ones of them wait until the end
POLLERS, RATE, SECONDS, SETTLED_S = 200, 60, 4.0, 8.0


def join(run: Run, voucher: str, user: str, instance: int = 0) -> Event:
    event = Event(time.time(), 0, "buy", user, voucher, instance)
    event.hear(*run.stack.instances[instance].ask("POST", f"/seckill/{voucher}", user, {"wait": True}))
    run.history.append(event)
    return event


def joined(run: Run, voucher: str, user: str, instance: int) -> Event:
    """A lost answer is repeated: the user has one place."""
    first = run.definite(lambda: join(run, voucher, user, instance))
    if first.status == 409 and first.code == "ALREADY_ORDERED":
        first.status = 202
    if first.status != 202:
        raise Broken(f"{user} does not wait: {first.status} {first.code}")
    return first


def gives_back(run: Run, bought: Event) -> None:
    """Also while the voucher is rebuilt."""
    wait_for("a cancellation", lambda: tell(run, move("cancel", bought, 1)).status == 200, SETTLED_S)


def statuses(run: Run, voucher: str, like: str) -> list[str]:
    rows = run.postgres.sql(
        f"select status from voucher_order where voucher_id = {voucher} and user_id like '{like}%' and reason is distinct from"
        " 'LEFT' order by id"
    )
    return [row[0] for row in rows]


def end(run: Run, voucher: str) -> None:
    status, document = run.stack.instances[1].ask("POST", f"/admin/vouchers/{voucher}/close")
    if status != 200:
        raise Broken(f"not closed: {status} {document}")
    within(run, "the end of the line", lambda: "waiting" not in statuses(run, voucher, "j"), SETTLED_S)


def units_return(then=None):
    """All units are sold, users wait, and the buyers give their units back while others ask for one all the time. Of those
    who get a unit some pass it on. Nobody who asks gets one, and the line is served in its order."""

    def inject(run: Run) -> None:
        voucher = open_voucher(run, UNITS, waitlist=WAITING)
        won = [run.definite(lambda n=n: buy(run, voucher, f"w{n:02}", n % 2)) for n in range(UNITS)]
        waits = [joined(run, voucher, f"j{n:02}", n % 2) for n in range(WAITING)]
        pollers = Crowd([instance.port for instance in run.stack.instances], run.rng, run.history)
        pollers.start([voucher], SECONDS, RATE, POLLERS, False, False)
        for n, order in enumerate(won):
            if n == UNITS // 3 and then is not None:
                then(run)
            gives_back(run, order)
        within(run, "each unit has an heir", lambda: statuses(run, voucher, "j").count("unpaid") == UNITS, SETTLED_S)
        pollers.join()
        for n in range(PASSED_ON):
            gives_back(run, waits[n])
        expected = ["cancelled"] * PASSED_ON + ["unpaid"] * UNITS + ["waiting"] * (WAITING - UNITS - PASSED_ON)
        within(run, "the line in its order", lambda: statuses(run, voucher, "j") == expected, SETTLED_S)
        if (others := statuses(run, voucher, "u")) and then is None:
            run.seen_meanwhile.append(f"of those who only asked, some have orders: {others}")
        end(run, voucher)

    return inject


def units_added(run: Run) -> None:
    """They go to who waits, by entries of their own."""
    voucher = open_voucher(run, 1, waitlist=WAITING)
    run.definite(lambda: buy(run, voucher, "w00", 1))
    for n in range(WAITING):
        joined(run, voucher, f"j{n:02}", 1)
    path = f"/admin/vouchers/{voucher}/stock"
    status, document = run.stack.instances[1].ask("POST", path, body={"add": UNITS}, headers=run.voucher_key())
    if status != 200:
        raise Broken(f"no units: {status} {document}")
    expected = ["unpaid"] * UNITS + ["waiting"] * (WAITING - UNITS)
    within(run, "the units are in the line", lambda: statuses(run, voucher, "j") == expected, SETTLED_S)
    end(run, voucher)


def a_line(name: str, title: str, then, **more) -> Fault:
    usual = {"rate": 0, "units": UNITS, "unknown": 0.6, "refused_202": WAITING}
    return Fault(name, f"a line, {title}", then, **(usual | more))


ROWS = [
    a_line("69a", "units return while others ask for one", units_return(), short=True),
    a_line("69b", "an instance killed", units_return(killed), refused_202=WAITING + 10),
    a_line("69c", "amid it FLUSHALL", units_return(flushall), rebuilds=12),
    a_line("69d", "units are added", units_added),
]
