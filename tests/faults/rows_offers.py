"""Terms that change while an instance cannot follow: 58. The link on which it reads the catalogue is cut; its orders
pass. After the answer to an operator's change nothing is sold under the old terms, and an order costs the price that
its buyer saw."""

from __future__ import annotations

import time

from crowd import Event
from driver import Run
from fault import Fault
from proxy import Proxy
from rows_tools import buy, in_background, open_voucher, restart, sells, within
from stack import Broken, free_port, redis_url

LEAD_S = 2.5  # from creating a voucher to its start
SELLING_S = 2.0
BUYERS = 6  # at a time and instance: each delayed one waits for about a second
OLD, NEW = 100, 200  # prices
STOCK = 5000  # more units than the buyers can take on any machine
LATE_S = 0.2  # in each direction between Redis and the instance that makes the change


class Questions(Proxy):
    """Swallows the traffic on the links for queries, from `cut` on."""

    def __init__(self, port: int):
        self.cut, self.found = False, set()
        super().__init__(port)

    async def _pump(self, reader, writer, direction, both) -> None:
        try:
            while chunk := await reader.read(65536):
                if b"seckill-queries" in chunk:
                    self.found.add(both)
                if not (self.cut and both in self.found):
                    writer.write(chunk)
                    await writer.drain()
        except OSError:
            pass
        for one in both:
            one.close()


def cut_off(run: Run) -> Questions:
    """The first instance queries PostgreSQL through it."""
    own = Questions(free_port())
    own.reset(run.postgres.port)
    run.stack.more_proxies.append(own)
    restart(run.first, run.stack.database("seckill", own.port))
    if not own.found:
        raise Broken("no link for questions was found")
    return own


def known_everywhere(run: Run, voucher: str, code: str) -> None:
    for n in range(len(run.stack.instances)):
        if not within(run, f"{code} at instance {n}", lambda: buy(run, voucher, f"early{n}", n).code == code, 5):
            raise Broken("the voucher is not known")


def change(run: Run, voucher: str, terms: dict) -> float:
    """Makes a change at the second instance; returns when it was answered."""
    status, document = run.stack.instances[1].ask("PATCH", f"/admin/vouchers/{voucher}", body=terms, timeout=10.0)
    if status != 200:
        raise Broken(f"not changed: {status} {document}")
    return time.time()


def buyers(run: Run, voucher: str, seconds: float, quantities=(1,)) -> list[tuple[Event, dict]]:
    """New users at both instances, for this long; returns their answers."""
    heard: list[tuple[Event, dict]] = []
    end = time.monotonic() + seconds

    def ask(instance: int, number: int) -> None:
        turn = 0
        while time.monotonic() < end:
            turn += 1
            quantity = quantities[turn % len(quantities)]
            event = Event(time.time(), 0, "buy", f"b{instance}-{number}-{turn}", voucher, instance, quantity=quantity)
            body = {"quantity": quantity} if quantity > 1 else None
            status, document = run.stack.instances[instance].ask("POST", f"/seckill/{voucher}", event.user, body, 4.0)
            event.hear(status, document)
            run.history.append(event)
            heard.append((event, document))
            time.sleep(0.01)

    threads = [in_background(lambda i=i, n=n: ask(i, n)) for i in range(2) for n in range(BUYERS)]
    for thread in threads:
        thread.join()
    return heard


def must_have_been_behind(heard: list[tuple[Event, dict]]) -> None:
    if not any(event.instance == 0 and event.code == "LOADING" for event, _ in heard):
        raise Broken("the first instance was not behind")


def follows_again(run: Run, own: Questions, voucher: str) -> None:
    own.cut = False
    own.drop_all()
    sells(run, voucher, 8, "followed")


def limit_lowered(run: Run) -> None:
    own = cut_off(run)
    begins = time.time() + LEAD_S
    voucher = open_voucher(run, STOCK, begin_s=LEAD_S, limit=10)
    known_everywhere(run, voucher, "NOT_STARTED")
    own.cut = True
    answered = change(run, voucher, {"limit": 1})
    if answered > begins:
        raise Broken("the change came after the start")
    time.sleep(max(0.0, begins - 0.1 - time.time()))
    heard = buyers(run, voucher, SELLING_S, (10, 5, 1))
    for event, _ in heard:
        if event.status in (201, 202) and event.quantity > 1:
            run.seen_meanwhile.append(f"{event.user} got {event.quantity} units of instance {event.instance}, limit 1")
    must_have_been_behind(heard)
    follows_again(run, own, voucher)


def ticket_switched_on(run: Run) -> None:
    """In the middle of the sale. Winners also get their order from the instance that is behind (P6)."""
    own = cut_off(run)
    voucher = open_voucher(run, STOCK)
    winner = "before"
    within(run, "a winner", lambda: buy(run, voucher, winner, 0).status in (201, 409), 5)
    own.cut = True
    answered = change(run, voucher, {"ticket": True})
    heard = buyers(run, voucher, SELLING_S)
    for event, _ in heard:
        if event.status in (201, 202) and event.began > answered:
            run.seen_meanwhile.append(f"{event.user} bought of instance {event.instance} without a ticket")
    told = run.definite(lambda: buy(run, voucher, winner, 0))
    if told.code != "ALREADY_ORDERED":
        run.seen_meanwhile.append(f"a winner who repeated was told {told.status} {told.code}")
    must_have_been_behind(heard)
    change(run, voucher, {"ticket": False})  # for the purchases at the end
    follows_again(run, own, voucher)


def price_changed_at_the_last_moment(run: Run) -> None:
    """PostgreSQL has the change just before the start, and Redis just after it. In between the instance that is behind
    rightly sells at the old price, and these orders keep it."""
    own, slow = cut_off(run), run.stack.another_proxy(run.redis.port)
    restart(run.stack.instances[1], {"SECKILL_REDIS_URL": redis_url(slow.port)})
    begins = time.time() + LEAD_S
    voucher = open_voucher(run, STOCK, begin_s=LEAD_S, price_cents=OLD)
    known_everywhere(run, voucher, "NOT_STARTED")
    own.cut = True
    slow.delay_ms = LATE_S * 1000
    answered: list[float] = []
    time.sleep(max(0.0, begins - 2 * LATE_S - time.time()))  # Redis has it three times that later
    changing = in_background(lambda: answered.append(change(run, voucher, {"price_cents": NEW})))
    heard = buyers(run, voucher, SELLING_S)
    changing.join()
    slow.delay_ms = 0.0
    if not answered:
        raise Broken("the price was not changed")
    follows_again(run, own, voucher)
    sold = [(event, document) for event, document in heard if event.status == 201]
    for event, document in sold:
        shown = document.get("price_cents")
        if event.began > answered[0] and shown != NEW:
            run.seen_meanwhile.append(f"{event.user} bought at {shown} after the change was answered")
        now = run.stack.instances[1].ask("GET", f"/orders/{event.order}", event.user)[1].get("price_cents")
        if now != shown:
            run.seen_meanwhile.append(f"{event.user} was shown {shown}, and the order costs {now}")
    if not any(document.get("price_cents") == OLD for _, document in sold):
        raise Broken("no order was placed between the two stores' changes")


ALONE = {"rate": 0, "unknown": 1.0, "env": {"SECKILL_TICKET_SECRET": "secret-of-the-tickets"}}

ROWS = [
    Fault("58a", "the price changes at the last moment before the start", price_changed_at_the_last_moment, **ALONE),
    Fault("58b", "the limit is lowered, an instance cannot follow", limit_lowered, short=True, **ALONE),
    Fault("58c", "tickets are switched on, an instance cannot follow", ticket_switched_on, **ALONE),
]
