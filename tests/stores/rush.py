"""Buyers who rush at all instances while the stores are hurt, and the books afterwards."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter

from stack import Instance, RedisServer, Stack

UNITS, BUYERS = 100_000, 8
# Orders of buyers who are not in the rush; the voucher's next rebuild loads them.
FILL = """
INSERT INTO voucher_order (id, slot, user_id, voucher_id)
SELECT (left(uuid_at(now())::text, 13) || '-7000-8' || lpad(to_hex(n), 15, '0'))::uuid, slot_of('{id}'), 'f' || n, {id}
  FROM generate_series(1, {orders}) AS n;
UPDATE voucher_stock SET stock = stock - {orders}, live = live + {orders} WHERE voucher_id = {id};
"""


def voucher_of(one: Instance, units: int = UNITS) -> str:
    now = time.time()
    at = lambda seconds: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + seconds))
    terms = {"title": "Rush", "stock": units, "price_cents": 1, "begin_at": at(-3600), "end_at": at(86400)}
    status, document = one.ask("POST", "/admin/vouchers", body=terms)
    if status != 201:
        raise RuntimeError(f"no voucher: {status} {document}")
    return document["id"]


class Rush:
    """Buyers at all instances. It keeps the answers. `everywhere`: each of them asks at one instance after the other."""

    def __init__(self, made: list[Instance], voucher: str, everywhere: bool = False):
        self.made, self.everywhere = made, everywhere
        self.over, self.answers, self.lock = threading.Event(), [], threading.Lock()
        self.threads = [threading.Thread(target=self._buy, args=(n, voucher)) for n in range(BUYERS)]
        for thread in self.threads:
            thread.start()

    def _buy(self, number: int, voucher: str) -> None:
        turn, count = 0, len(self.made)
        while not self.over.is_set():
            turn += 1
            user = f"b{number}-{turn}"
            for more in range(count if self.everywhere else 1):
                status, document = self.made[(number + more) % count].ask("POST", f"/seckill/{voucher}", user)
                with self.lock:
                    self.answers.append((time.time(), user, status, document))
            time.sleep(0.01)

    def confirmed_after(self, moment: float) -> float:
        with self.lock:
            return min((at for at, _, status, _ in self.answers if status == 201 and at > moment), default=0.0)

    def end(self) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()


def books(stack: Stack, rush: Rush, voucher: str, redis: RedisServer) -> list[str]:
    """Every 201 is a row, every 202 has ended, a user has one order, and both stores have the same ones."""
    rows = dict(stack.postgres.sql(f"select id, status from voucher_order where voucher_id = {voucher}"))
    key = f"seckill:{{{voucher}}}"
    won = {user: d["id"] for _, user, s, d in rush.answers if s == 201}
    told = [(user, d.get("order_id", d.get("id"))) for _, user, s, d in rush.answers if s in (201, 409)]
    wrong = [f"{user} has {won[user]} and {id}" for user, id in told if id != won.get(user, id)]
    wrong += [f"a refusal: {d}" for _, _, s, d in rush.answers if s not in (0, 201, 202, 503) and "order_id" not in d]
    wrong += [f"a 201 without a row: {d['id']}" for _, _, s, d in rush.answers if s == 201 and d["id"] not in rows]
    open_202 = [d["id"] for _, _, s, d in rush.answers if s == 202]
    wrong += [f"a 202 without an end: {id}" for id in open_202 if id not in rows]
    live = {id for id, status in rows.items() if status == "unpaid"}
    stock = int(redis.call("HGET", f"{key}:voucher", "stock"))
    buyers = {value[:36] for value in redis.call("HGETALL", f"{key}:buyers", timeout=20)[1::2]}
    if live != buyers or len(live) + stock != UNITS:
        wrong.append(f"{len(live)} live orders, {len(buyers)} buyers and {stock} of {UNITS} units in Redis")
    counts = Counter(status for _, _, status, _ in rush.answers)
    refused = sum(status == "refused" for status in rows.values())
    print(f"    {dict(counts)}, {len(live)} live orders, {refused} refused, {len(open_202)} confirmed or refused later")
    return wrong[:3]


def rebuilt_s(made: list[Instance], since: float) -> float:
    """The longest rebuild after that moment, as the logs have it."""
    lines = (line for one in made for line in one.text().splitlines() if 'msg="voucher rebuilt"' in line)
    began = time.strftime("ts=%Y-%m-%dT%H:%M:%S", time.gmtime(since))
    return max((int(re.search(r" ms=(\d+)", line)[1]) / 1000 for line in lines if line >= began), default=0.0)
