"""Operators at work during a rush, while instances are stopped and stores fail: 35."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from driver import Run
from fault import Fault
from machine import Deadline
from rows_tools import buy, in_background, instant, key, open_voucher, within
from stack import OPERATE_TOKEN, OTHER_TOKEN

DEFINITE_S = 15.0  # until a call repeated with its key gets an answer
EVERYWHERE_S = 1.0  # a change takes effect on all instances
SLACK_S = 0.5  # for a busy machine
SETTLED_S = 12.0
REDUCED_S = 30.0  # not a promise: until two operators have taken away what the crowd leaves


@dataclass
class Operator:
    """Repeats a call with its key until the answer is definite, at one instance after the other."""

    run: Run
    voucher: str
    name: str
    token: str
    rng: random.Random
    version: int = 0  # from the last answer
    done: list[tuple[str, dict]] = field(default_factory=list)  # calls answered with 200
    doubtful: list[tuple[str, dict]] = field(default_factory=list)  # rejected, after an attempt without an answer
    heard: Counter = field(default_factory=Counter)
    calls: int = 0
    patience_s: float = DEFINITE_S
    repeated: int = 0  # calls that took units away, and got no answer

    def call(self, what: str, body: dict | None = None, method: str = "POST", if_match: int = 0, instance: int = -1):
        """(status, document) of POST .../what, or of PATCH of the voucher."""
        self.calls += 1
        path = f"/admin/vouchers/{self.voucher}" + (f"/{what}" if what else "")
        headers = {"Authorization": f"Bearer {self.token}", "Idempotency-Key": f"{self.name}-{self.calls}"}
        if if_match:
            headers["If-Match"] = f'"{if_match}"'
        deadline, n, tries, began = Deadline(self.patience_s), max(instance, 0), 0, time.time()
        while True:
            tries += 1
            one = self.run.stack.instances[n % len(self.run.stack.instances)]
            status, document = one.ask(method, path, body=body, timeout=1.0, headers=headers)
            if status not in (0, 503):
                break
            if deadline.passed():
                self.run.seen_meanwhile.append(f"{self.name} has no answer to {what or method} {body}: {status} {document}")
                break
            n += 1
            time.sleep(0.1)
        reduces = "reduce" in (body or {})
        if reduces and (tries > 1 or status == 412):  # refused after the units had left Redis: no rebuild right after one
            self.run.taken.add(self.voucher)
        if reduces and status != 200:  # until PostgreSQL decides, nobody can buy them
            self.run.withdrawn.setdefault(self.voucher, []).append((began, time.time(), body["reduce"]))
        self.repeated += reduces and tries > 1
        self.heard[f"{status} {document.get('code', '')}"] += 1
        if status == 200:
            self.done.append((what, body or {}))
            self.version = int(document.get("version", 0))
        elif tries > 1:
            self.doubtful.append((what, body or {}))
        return status, document

    def at_random(self) -> None:
        seen = self.version if self.rng.random() < 0.5 else 0
        n = self.rng.randrange(2)
        choice = self.rng.randrange(6)
        if choice == 0:
            self.call("pause", if_match=seen, instance=n)
            time.sleep(0.05)
            self.call("resume", instance=n + 1)
        elif choice < 3:
            self.call("stock", {"add": self.rng.randint(1, 20)}, if_match=seen, instance=n)
        elif choice < 5:
            self.call("stock", {"reduce": self.rng.randint(1, 20)}, if_match=seen, instance=n)
        else:
            self.call("", {"end_at": instant(100000 + self.calls * 60)}, "PATCH", if_match=seen, instance=n)


def two(run: Run, voucher: str) -> list[Operator]:
    names = (("olga", OPERATE_TOKEN), ("otto", OTHER_TOKEN))
    return [Operator(run, voucher, name, token, random.Random(run.rng.random())) for name, token in names]


def work(operators: list[Operator], seconds: float) -> list[threading.Thread]:
    """Both at once, with random calls."""

    def until(operator: Operator, end: float) -> None:
        while time.monotonic() < end:
            operator.at_random()
            time.sleep(operator.rng.random() * 0.1)

    return [in_background(lambda one=one: until(one, time.monotonic() + seconds)) for one in operators]


def stock_calls(calls: list[tuple[str, dict]]) -> Counter:
    """How often each number of units was added, or, if negative, taken away."""
    return Counter(body.get("add", 0) - body.get("reduce", 0) for what, body in calls if what == "stock")


def stock_changes(run: Run, voucher: str, name: str) -> tuple[Counter, int]:
    """The same from PostgreSQL, and the number of changes of any kind."""
    number = "coalesce((detail->>'add')::int, -(detail->>'reduce')::int)"
    rows = run.postgres.sql(
        f"select what, {number} from admin_event where voucher_id = {voucher} and by_whom = '{name}'"
    )
    return Counter(int(units) for what, units in rows if what == "stock"), len(rows)


def accounted(run: Run, voucher: str, operators: list[Operator], units: int) -> None:
    """Each answered change was made once, and no other; Redis has the last of them."""
    made_once(run, voucher, operators, units)
    up_to_date(run, voucher)


def made_once(run: Run, voucher: str, operators: list[Operator], units: int) -> None:
    """A rejection is about the attempt that was answered: an earlier one, at a paused instance, may still be executed
    when it continues."""
    for operator in operators:
        made, events = stock_changes(run, voucher, operator.name)
        units += sum(made.elements())
        told, doubtful = stock_calls(operator.done), stock_calls(operator.doubtful)
        if told - made or made - told - doubtful:
            run.seen_meanwhile.append(f"{operator.name} was told of {dict(told)}, not of {dict(doubtful)}, and made {dict(made)}")
        if events > len(operator.done) + len(operator.doubtful):
            run.seen_meanwhile.append(f"{operator.name} was told of {len(operator.done)} changes and made {events}")
    now = int(run.postgres.sql(f"select units from voucher_stock where voucher_id = {voucher}")[0][0])
    if now != units:
        run.seen_meanwhile.append(f"{now} units, and {units} by what the operators made")


def up_to_date(run: Run, voucher: str) -> None:
    newest = f"select change from seckill_voucher where id = {voucher}"
    has_it = lambda: run.redis.call("HGET", key(voucher, "voucher"), "change") == run.postgres.sql(newest)[0][0]
    within(run, "Redis up to date with the last change", has_it, SETTLED_S)


def resumed(run: Run, operator: Operator) -> None:
    status, document = operator.call("resume")
    if status != 200:
        run.seen_meanwhile.append(f"not resumed: {status} {document}")


def operators_in_a_rush(run: Run) -> None:
    voucher = run.vouchers[0]
    operators = two(run, voucher)
    threads = work(operators, 2.5)
    time.sleep(0.4)
    run.first.signal(signal.SIGSTOP)
    time.sleep(1.3)
    run.first.signal(signal.SIGCONT)
    for thread in threads:
        thread.join()
    resumed(run, operators[0])
    accounted(run, voucher, operators, run.fault.units)


def operators_while(breaks):
    """The same while something breaks."""

    def inject(run: Run) -> None:
        voucher = run.vouchers[0]
        operators = two(run, voucher)
        threads = work(operators, 2.5)
        time.sleep(0.6)
        breaks(run)
        for thread in threads:
            thread.join()
        resumed(run, operators[0])
        accounted(run, voucher, operators, run.fault.units)

    return inject


def flushall(run: Run) -> None:
    run.redis.call("FLUSHALL")


def one_of_two(run: Run) -> None:
    """Both have read the voucher and change it at once: one succeeds, the other gets a version conflict."""
    voucher = run.vouchers[0]
    operators = two(run, voucher)
    for n in range(12):
        seen = run.first.ask("GET", f"/admin/vouchers/{voucher}")[1].get("version", 0)
        heard: list[int] = []

        def change(operator: Operator, instance: int) -> None:
            body = {"end_at": instant(200000 + 60 * n + instance)}
            heard.append(operator.call("", body, "PATCH", if_match=int(seen), instance=instance)[0])

        threads = [in_background(lambda one=one, k=k: change(one, k)) for k, one in enumerate(operators)]
        for thread in threads:
            thread.join()
        if sorted(heard) != [200, 412]:
            run.seen_meanwhile.append(f"of two changes of version {seen}: {heard}")
    accounted(run, voucher, operators, run.fault.units)


def effective_everywhere(run: Run) -> None:
    """Each change takes effect at each instance within a second of its answer."""
    voucher = open_voucher(run, 2)
    operator = two(run, voucher)[0]
    count, names = len(run.stack.instances), iter(range(10000))

    def hears(what: str, code: str, status: int = 0) -> None:
        bound = Deadline(EVERYWHERE_S + SLACK_S)
        for instance in range(count):
            ask = lambda: buy(run, voucher, f"asker{next(names)}", instance)
            told = lambda event: event.status == status if status else event.code == code
            within(run, f"{what}: {code or status} at instance {instance}", lambda: told(ask()), EVERYWHERE_S + SLACK_S)
        if bound.passed():
            run.miss(f"{what}: everywhere after {bound.spent_s():.1f} s")

    steps = [
        ("pause", None, "PAUSED", 0),
        ("resume", None, "", 201),
        ("stock", {"add": 5}, "", 201),
    ]
    for turn in range(2):
        for what, body, code, status in steps:
            answer = operator.call(what, body, instance=turn)
            if answer[0] != 200:
                run.seen_meanwhile.append(f"{what}: {answer}")
            hears(what, code, status)
    while (event := buy(run, voucher, f"asker{next(names)}", 0)).outcome == "ok":
        pass
    if event.code != "SOLD_OUT":
        run.seen_meanwhile.append(f"the last one was told {event.status} {event.code}")
    for instance in range(count):
        buy(run, voucher, f"early{instance}", instance)  # each has seen the sell-out
    operator.call("stock", {"add": 4})
    hears("added when all was sold", "", 201)
    for answer, due in (
        (operator.call("stock", {"reduce": 1000}), 409),
        (operator.call("stock", {"reduce": 1}), 200),
        (operator.call("close"), 200),
    ):
        if answer[0] != due:
            run.seen_meanwhile.append(f"answered {answer}, not {due}")
    hears("close", "ENDED")
    if operator.call("resume")[0] != 409:
        run.seen_meanwhile.append("a closed voucher was resumed")
    accounted(run, voucher, [operator], 2)


def reduced_amid_buyers(run: Run) -> None:
    """Down to the sold units, and never below."""
    voucher = run.vouchers[0]
    operators = two(run, voucher)
    refused: list[dict] = []

    def reduce(operator: Operator, instance: int) -> None:
        bound = Deadline(REDUCED_S)
        while not bound.passed():
            status, document = operator.call("stock", {"reduce": operator.rng.randint(1, 9)}, instance=instance)
            if status == 409:
                refused.append(document)
                if document.get("left", 0) == 0:
                    return
            time.sleep(0.03)

    threads = [in_background(lambda one=one, k=k: reduce(one, k)) for k, one in enumerate(operators)]
    for thread in threads:
        thread.join()
    if not refused or any(document.get("code") != "BELOW_SOLD" for document in refused):
        run.seen_meanwhile.append(f"reducing below what is sold: {refused[-1:]}")
    accounted(run, voucher, operators, run.fault.units)


def committed_without_redis(run: Run) -> None:
    """PostgreSQL has the change and Redis does not answer: it is applied when Redis is back, once, whether or not the
    call is repeated."""
    voucher = run.vouchers[0]
    operators = two(run, voucher)
    asked = []
    run.stack.redis_proxy.swallow.update(up=True, down=True)
    for operator in operators:
        asked.append(in_background(lambda one=operator: one.call("stock", {"add": 25})))
    time.sleep(1.5)
    run.stack.redis_proxy.swallow.update(up=False, down=False)
    run.stack.redis_proxy.drop_all()
    for thread in asked:
        thread.join()
    accounted(run, voucher, operators, run.fault.units)


ROWS = [
    Fault(
        "35a", "two operators in a rush, an instance stopped", operators_in_a_rush,
        seconds=5.0, unknown=0.4, rebuilds=1, short=True,  # units that had left Redis when the instance stopped
    ),
    Fault(
        "35b", "two operators in a rush, FLUSHALL", operators_while(flushall),
        seconds=4.0, rebuilds=4, refused_202=25, unknown=0.3,
    ),
    Fault("35e", "two changes of one version at once", one_of_two, rate=50),
    Fault(
        "35f", "paused, resumed, added, closed: on all instances", effective_everywhere, rate=0, unknown=0.9, alone=True,
    ),
    Fault("35g", "reduced to what is sold, amid buyers", reduced_amid_buyers, units=1500),
    Fault(
        "35h", "stock added while Redis does not answer", committed_without_redis,
        proxied=True, rate=100, rebuilds=3, unknown=0.7,
    ),
]
