"""Orders after they were placed: their users cancel, the shop's payment side pays, an operator refunds, or they expire.
Each request is an event of the history, of the order's user, as a purchase is.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from dataclasses import dataclass

from crowd import Crowd, Event, ask
from stack import OPERATE_TOKEN, PAYMENT_SECRET, PAYMENTS_TOKEN

TRIES = 4  # of a move whose order is pending, or whose answer was lost
PAUSE_S = 0.08
EXTEND_S = 1  # by so much an order is extended
AT_ONCE_S = 0.4  # an order is moved within this time after it was placed


@dataclass(frozen=True)
class Habits:
    """What the users of a crowd do besides buying one unit each."""

    moves: float = 0.0  # share of the orders that are paid, cancelled, refunded, or left to expire
    keyed: float = 0.0  # share of the purchases with an Idempotency-Key
    limit: int = 1  # units per purchase, at most
    price: int = 1  # of a unit, in cents
    pay_within_s: int = 0  # until an unpaid order expires; 0: not during the run
    followed: bool = True  # another system reads the feed of their orders


def request_of(event: Event, signs: bool = False) -> tuple[str, dict[str, str], dict | None]:
    """Path, headers and body of a move. `signs`: the payment side uses the shared secret instead of a token."""
    path = f"/orders/{event.order}/{event.what}"
    if event.what == "cancel":
        return path, {"X-User-Id": event.user}, None
    if event.what == "refund":
        return path, {"Authorization": f"Bearer {OPERATE_TOKEN}"}, {"restock": event.restock, "why": "asked for"} | (
            {"reference": event.reference} if event.reference else {}
        )
    if event.what == "extend":
        body = {"reference": event.reference, "extend_s": EXTEND_S}
    else:
        body = {"reference": event.reference, "amount_cents": event.amount, "currency": "CNY"}
    if not signs:
        return path, {"Authorization": f"Bearer {PAYMENTS_TOKEN}"}, body
    now = str(int(time.time()))
    signed = f"{now}.{path}.{json.dumps(body)}".encode()
    digest = hmac.new(PAYMENT_SECRET.encode(), signed, hashlib.sha256).hexdigest()
    return path, {"X-Seckill-Timestamp": now, "X-Seckill-Signature": digest}, body


def move(what: str, bought: Event, instance: int, **more) -> Event:
    """An event that has not been sent yet."""
    return Event(time.time(), 0, what, bought.user, bought.voucher, instance, order=bought.order, **more)


class Shoppers(Crowd):
    """A crowd with habits."""

    def __init__(self, ports, rng, history, habits: Habits):
        super().__init__(ports, rng, history)
        self.habits, self.references = habits, 0
        self.fates = {
            self._pays: 30,
            self._cancels: 20,
            self._refunds: 15,
            self._races: 15,
            self._pays_late: 10 if habits.pay_within_s else 0,
            self._leaves: 20 if habits.pay_within_s else 0,
            self._extends: 10 if habits.pay_within_s else 0,
        }

    async def _buy(self, voucher: str, user: str, instance: int) -> None:
        event = Event(time.time(), 0, "buy", user, voucher, instance)
        if self.rng.random() < self.habits.keyed:
            event.key = f"{user}-{self.rng.randrange(3)}"
        event.quantity = self.rng.randint(1, self.habits.limit)
        await self._ask_for(event)
        if event.key and self.rng.random() < 0.3:
            await self._repeat(event)
        if event.status in (201, 202) and self.rng.random() < self.habits.moves:
            (fate,) = self.rng.choices([*self.fates], [*self.fates.values()])
            await asyncio.sleep(self.rng.random() * AT_ONCE_S)
            await fate(event)

    async def _repeat(self, bought: Event) -> None:
        """Under its key; now and then for another quantity, which is refused."""
        quantity = bought.quantity if self.rng.random() < 0.8 else self.rng.randint(1, self.habits.limit)
        instance = self.rng.randrange(len(self.ports))
        again = Event(time.time(), 0, "buy", bought.user, bought.voucher, instance, quantity=quantity, key=bought.key)
        await self._ask_for(again)

    async def _move(self, what: str, bought: Event, **more) -> Event:
        """Until it is definite; each try is an event."""
        signs = what in ("pay", "extend") and self.rng.random() < 0.5
        for _ in range(TRIES):
            event = move(what, bought, self.rng.randrange(len(self.ports)), **more)
            path, headers, body = request_of(event, signs)
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            await self._hear(event, ask(self.ports[event.instance], "POST", path, "", lines, body=body))
            if event.code != "PENDING" and event.outcome != "unknown":
                break
            await asyncio.sleep(PAUSE_S)
        return event

    def _bill(self, bought: Event) -> dict:
        self.references += 1
        return {"reference": f"{bought.voucher}-{self.references}", "amount": self.habits.price * bought.quantity}

    async def _pays(self, bought: Event) -> None:
        bill = self._bill(bought)
        if self.rng.random() < 0.1:
            await self._move("pay", bought, **(self._bill(bought) | {"amount": bill["amount"] + 1}))
        paid = await self._move("pay", bought, **bill)
        if self.rng.random() < 0.25:
            await self._move("pay", bought, **bill)
        if self.rng.random() < 0.15:
            await self._move("pay", bought, **self._bill(bought))
        if paid.status == 200 and self.rng.random() < 0.2:
            await self._move("cancel", bought)

    async def _cancels(self, bought: Event) -> None:
        await self._move("cancel", bought)
        if self.rng.random() < 0.25:
            await self._move("cancel", bought)
        if bought.key and self.rng.random() < 0.5:
            await self._repeat(bought)
        await self._returns(bought)

    async def _refunds(self, bought: Event) -> None:
        await self._move("pay", bought, **self._bill(bought))
        restock, late = self.rng.random() < 0.6, self._bill(bought)
        await self._move("refund", bought, restock=restock)
        if self.rng.random() < 0.3:
            await self._move("pay", bought, **late)
        if self.rng.random() < 0.3:
            await self._move("refund", bought, restock=restock)
        if self.rng.random() < 0.3:
            await self._move("refund", bought, restock=restock, reference=late["reference"])
        await self._returns(bought)

    async def _races(self, bought: Event) -> None:
        """Two moves at once; what came too late is given back."""
        rivals = [("cancel", {}), ("pay", self._bill(bought)), ("pay", self._bill(bought)), ("refund", {"restock": True})]
        chosen = self.rng.sample(rivals, 2)
        await asyncio.gather(*(self._move(what, bought, **more) for what, more in chosen))
        if self.rng.random() < 0.5:
            await self._move("refund", bought, restock=self.rng.random() < 0.5)

    async def _pays_late(self, bought: Event) -> None:
        """When it is about to expire, or just has."""
        due = bought.ended + self.habits.pay_within_s
        await asyncio.sleep(max(0.0, due - time.time() + self.rng.uniform(-0.2, 0.8)))
        await self._move("pay", bought, **self._bill(bought))

    async def _extends(self, bought: Event) -> None:
        """When it is about to expire, now and then for two payments at once; one of them comes after the first time."""
        bills = [self._bill(bought) for _ in range(self.rng.randint(1, 2))]
        due = bought.ended + self.habits.pay_within_s
        await asyncio.sleep(max(0.0, due - time.time() + self.rng.uniform(-0.6, 0.3)))
        await asyncio.gather(*(self._move("extend", bought, reference=bill["reference"]) for bill in bills))
        if self.rng.random() < 0.5:
            await asyncio.sleep(max(0.0, due - time.time() + self.rng.uniform(0.0, 1.2 * EXTEND_S)))
            await self._move("pay", bought, **bills[0])
        else:
            await asyncio.sleep(EXTEND_S + self.rng.random())
        await self._move("extend", bought, reference=bills[0]["reference"])

    async def _leaves(self, bought: Event) -> None:
        await asyncio.sleep(self.habits.pay_within_s + self.rng.random())
        await self._returns(bought)

    async def _returns(self, bought: Event) -> None:
        """Somebody whose order is gone may buy again, and most do."""
        if self.rng.random() < 0.6:
            await self._buy(bought.voucher, bought.user, self.rng.randrange(len(self.ports)))


def tell(run, event: Event, timeout: float = 5.0, signs: bool = False) -> Event:
    """Sends one move besides the crowd's, to the event's instance, and keeps it in the history."""
    path, headers, body = request_of(event, signs)
    headers.setdefault("X-User-Id", event.user)
    one = run.stack.instances[event.instance]
    event.hear(*one.ask("POST", path, body=body, timeout=timeout, headers=headers))
    run.history.append(event)
    return event
