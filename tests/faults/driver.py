"""Runs one fault: fresh stores, instances, a crowd, and the fault in the middle. Then it waits until the service is
back and everything has settled, and calls the checker."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import time
from collections import defaultdict
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from typing import Callable

import checker
import stack as stacks
from clusters import slot_of
from crowd import REFUSALS, Event, ask_all, write_history
from fault import Fault, Result, Terms
from feed import Feed
from life import Shoppers
from machine import MACHINE, Deadline
from sentinels import Watched
from stack import ROOT, Broken, Instance, NotInjectable, Stack, wait_for
from watch import Watch
from world import ENDED, Fresh, Move, Order, OrderList, Payment, Voucher, World, states

SETTLE_S = 30.0
BACK_S = 30.0
ASKED = 50  # vouchers requested by a new user
HOLDS = 5  # attempts to see a lock while it is held
LISTS = 10  # users whose order lists are read
STRANGERS = 10  # orders requested by another user
FORMER = 5  # users with an ended order who buy again
DEFINITE_S, SHAKY_S, SHAKY_LATE_S = 10.0, 4.0, 0.3  # a store is away for as long as its time-out, a session for a TTL
FINAL_READS_S = 5.0
OVERDUE_S = 5.0  # how late an order may expire when all is quiet: 2 s, a TTL, and slack for a busy machine
# Keys that belong to none of the run's vouchers, except those that disappear soon.
STRAY_KEYS = """
local own, stray = {}, {}
for _, name in ipairs(ARGV) do
  for _, part in ipairs({ 'voucher', 'buyers', 'journal', 'repeats', 'ended' }) do
    own['seckill:' .. name .. ':' .. part] = true
  end
end
for _, key in ipairs(redis.call('KEYS', '*')) do
  local left_ms = redis.call('PTTL', key)
  local session, lock = string.match(key, '^seckill:{shared}:session:'), string.match(key, '^seckill:lock:')
  local lasts = key == 'seckill:{shared}:sessions' or key == 'seckill:{shared}:busy' or key == 'seckill:{shared}:protocol' or key == 'seckill:{shared}:clock'
  lasts = lasts or key == 'seckill:{shared}:instances' or key == 'seckill:{shared}:figures'
  if not own[key] and not lasts and not (session and left_ms >= 0) and not (lock and left_ms >= 0 and left_ms <= 60000) then
    stray[#stray + 1] = key .. ' (PTTL ' .. left_ms .. ')'
  end
end
return stray
"""
FOREIGN_ROWS = """
select 'voucher ' || id from seckill_voucher where id <> all (%(own)s)
union all select 'order ' || id || ' of voucher ' || voucher_id from voucher_order where voucher_id <> all (%(own)s)
union all select 'dead letter of voucher ' || voucher_id from dead_letter where voucher_id <> all (%(own)s)
"""
# PostgreSQL's data; the first column is its kind. For changes of a voucher's units, the sum from each one on.
BOOKS = """
begin isolation level repeatable read read only;
select 'order', voucher_id, o.id, user_id, status, coalesce(reason, ''), quantity, coalesce(request_key, ''),
       case when pay_within_s > 0 then extract(epoch from coalesce(o.due_at, o.created_at + make_interval(secs => pay_within_s)))
            else 0 end
  from voucher_order o join seckill_voucher v on v.id = voucher_id;
select 'held', voucher_id, user_id, id, quantity from held_order;
select 'voucher', id, units, epoch - 1, user_limit, price_cents,
       case when now() < begin_at then 'NOT_STARTED' when now() >= end_at or state = 'closed' then 'ENDED'
            when state = 'paused' then 'PAUSED' else 'open' end, state, orders_per_user, coalesce(scope, id)
  from seckill_voucher join voucher_stock on voucher_id = id;
select 'letters', count(*) from dead_letter
 where ended_at is null and (orders is null or exists (select from held_order h where h.letter = dead_letter.id));
select 'move', order_id, status, by_whom, extract(epoch from at), coalesce(why, ''), coalesce(type, 'moved')
  from order_event where (status not in ('refused', 'unpaid') or type <> 'moved') and type is distinct from 'extended' order by tx, seq;
select 'extended', order_id, reference from order_event where type = 'extended';
select 'event', who, what from (
    select tx, seq, order_id as who, case when type = 'moved' and status = 'unpaid' then 'order.promoted'
                                          when coalesce(type, 'moved') = 'moved' then 'order.' || status
                                          when type = 'extended' then 'order.extended'
                                          else replace(type, 'payment_', 'payment.') end as what from order_event
    union all
    select tx, seq + n - 1, id, case when joined then 'order.waiting' else 'order.placed' end from order_placed, unnest(ids) with ordinality as o (id, n)) as events
 order by tx, seq;
select 'payment', reference, order_id, state, amount_cents, extract(epoch from at) from payment;
select 'change', voucher_id, change, sum(units) over (partition by voucher_id order by change desc) from stock_change
 order by change desc;
select 'overdue', o.id from voucher_order o join seckill_voucher v on v.id = o.voucher_id
 where o.status = 'unpaid' and v.pay_within_s > 0
   and coalesce(o.due_at, o.created_at + make_interval(secs => v.pay_within_s)) + make_interval(secs => %s) < now()
   and not exists (select from expiry_hold h where h.voucher_id in (0, v.id));
select 'wrong', wrong from (
""" + (ROOT / "tests/judge.sql").read_text() + ") as judge;\n"
ANSWERS = "".join(
    line for line in (ROOT / "tests/answers.sql").read_text().splitlines(True) if not line.startswith("--")
)


class Run:
    """One fault in progress, as its inject function sees it."""

    LEAD_IN = 0.3  # the part of the crowd's time before the fault

    def __init__(self, stack: Stack, fault: Fault, seed: int, terms: Terms):
        self.stack, self.fault, self.terms = stack, fault, terms
        self.rng, self.began = random.Random(f"{seed}/{fault.name}"), time.time()
        self.history: list[Event] = []
        self.healed_at = 0.0
        self.vouchers: list[str] = []
        self.names: dict[str, str] = {}  # of vouchers in the scope of another, in Redis
        self.leaks: list[str] = []
        self.refused_more = 0  # accepted orders that the fault has refused, counted by itself
        self.lost_with: tuple[int, float, float] | None = None  # an instance that was killed while nothing was committed, and when
        self.count_refused: Callable[[], int] = lambda: 0  # the same, once the crowd has heard all its answers
        self.seen_meanwhile: list[str] = []  # errors of which nothing is left at the end
        self.too_late: list[str] = []  # among these, missed time limits
        self.watched: Watched | None = None  # Redis, by sentinels
        self.taken: set[str] = set()  # vouchers whose reduction by an operator got no answer, or was refused
        self.withdrawn: dict[str, list[tuple[float, float, int]]] = {}  # by such calls: from, to, units
        self.cut: set[str] = set()  # vouchers whose journal was cut while a holder of its entries was killed, or did not read of them
        self.retirement_may_stop = False
        self.migrated_at = 0.0  # by the fault
        self.unseen: dict[str, int] = {}  # units taken by the fault and by no user of the history; by voucher
        self.settled: World | None = None  # the last read
        self.ends: list[Event] | None = None
        self.strangers: list[Event] = []
        self.lists: list[OrderList] = []
        self.listed = self.listed_more = 0  # more: vouchers that the instances know and PostgreSQL no longer has
        self.fresh: list[Fresh] = []
        self.watch, self.feed = Watch(self), Feed(self)

    # ---- for the faults ----

    @property
    def redis(self):
        return self.stack.redis

    @property
    def postgres(self):
        """All shards, or the one with the vouchers of a row that knows of no others."""
        return self.stack.postgres if self.fault.shards > 1 else self.stack.shards[0]

    @property
    def first(self):
        return self.stack.instances[0]

    def healed(self) -> None:
        self.healed_at = time.monotonic()

    def key(self, part: str) -> str:
        return f"seckill:{self.name(self.vouchers[0])}:{part}"

    def name(self, voucher: str) -> str:
        return self.names.get(voucher, f"{{{voucher}}}")

    def hold_orders(self, seconds: float, table: str = "voucher_order", server=None) -> subprocess.Popen:
        """For this long no instance can commit an order, so orders pile up in the instances. With the table
        voucher_stock no rebuild can begin either. On several shards it takes one of them."""
        server = server or self.postgres
        script = f"begin; lock table {table} in share mode; select pg_sleep({seconds}); commit;"
        command = server.psql("seckill", "-c", script)
        held = f"select 1 from pg_locks where relation = '{table}'::regclass and mode = 'ShareLock' and granted"
        for _ in range(HOLDS):
            holder = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_for("the lock", lambda one=holder: server.sql(held) or one.poll() is not None, pause=0.01)
            if holder.poll() is None:
                return holder  # else it was over before a slow machine had noticed it
        raise Broken(f"{table} was never seen locked")

    def buy(self, user: str, instance: int | Instance = 1, timeout: float = 2.0, voucher: str = "") -> Event:
        """One purchase in addition to the crowd's, kept in the history. Other purchases would make the checker expect
        more units to be left."""
        one = instance if isinstance(instance, Instance) else self.stack.instances[instance]
        event = Event(time.time(), 0, "buy", user, voucher or self.vouchers[0], one.number)
        event.hear(*one.ask("POST", f"/seckill/{event.voucher}", user, timeout=timeout))
        self.history.append(event)
        return event

    def hide_units(self, count: int) -> None:
        """The fault takes units of the first voucher that no purchase in the history accounts for."""
        self.unseen[self.vouchers[0]] = self.unseen.get(self.vouchers[0], 0) + count

    def reconcile(self, instance: int = 0, timeout: float = 3.0) -> int:
        voucher = self.vouchers[0]
        return self.stack.instances[instance].ask("POST", f"/admin/vouchers/{voucher}/reconcile", timeout=timeout)[0]

    def wait_dead(self, instance: int = 0, seconds: float = 8.0) -> bool:
        """Waits until a failpoint has ended it; returns whether it has."""
        one = self.stack.instances[instance]
        one.expected_exits.add(-signal.SIGKILL)
        deadline = Deadline(seconds)
        while one.alive() and not deadline.passed():
            time.sleep(0.02)
        return not one.alive()

    def machine_late_s(self, began: float, ended: float | None = None) -> float:
        """How late the machine was since then, or between two times of time.time(): the time limits of a row allow for
        that. Waits for conditions do so by themselves (wait_for, within, Deadline)."""
        return MACHINE.since(began).between_s(began, time.time() if ended is None else ended)

    def definite(self, ask: Callable[[], Event]) -> Event:
        """An answer that is judged by itself. On a late machine 503 UNAVAILABLE only means that a store, or the
        session, was late: the request is repeated."""
        deadline = Deadline(DEFINITE_S)
        while (event := ask()).code == "UNAVAILABLE" and not deadline.passed():
            if self.machine_late_s(event.began - SHAKY_S, event.ended) < SHAKY_LATE_S:
                break
            time.sleep(0.2)
        return event

    def miss(self, bound: str) -> None:
        """A time limit was missed."""
        self.seen_meanwhile.append(bound)
        self.too_late.append(bound)

    # ---- the run ----

    def prepare(self) -> None:
        fault, stack = self.fault, self.stack
        stack.share(fault.shards if fault.standby else max(fault.shards, stacks.SHARDS))
        stack.prepare(fault.appendfsync, fault.fresh_redis, fault.proxied, fault.replicas)
        if fault.standby:
            stack.add_standby()
        if fault.sentinels:
            self.watched = Watched(stack, fault.liars)
        stack.launch(fault.instances, fault.env, fault.first_env, fault.proxied)
        for instance in stack.instances if len(stack.shards) > 1 else []:  # they are ready with one of them
            wait_for("all shards", lambda one=instance: one.ask("GET", "/readyz")[1] == {"status": "ok"})
        for _ in range(fault.vouchers):
            self.new_voucher()

    def new_voucher(self) -> str:
        now = datetime.now(timezone.utc)
        terms = {
            "title": f"Fault {self.fault.name}",
            "stock": self.fault.units,
            "price_cents": self.fault.habits.price,
            "orders_per_user": self.fault.orders_most,
            "begin_at": (now - timedelta(hours=3)).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "end_at": (now + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        if self.fault.habits.limit > 1:
            terms["limit"] = self.fault.habits.limit
        if self.fault.habits.pay_within_s:
            terms["pay_within_s"] = self.fault.habits.pay_within_s
        headers, deadline = self.voucher_key(), Deadline(5)
        while True:  # some reactor of an instance may not be ready yet
            status, document = self.stack.instances[-1].ask("POST", "/admin/vouchers", body=terms, headers=headers)
            if status not in (0, 503) or deadline.passed():
                break
            time.sleep(0.05)
        if status != 201 or document["state"] != "open":
            raise Broken(f"no voucher: {status} {document}")
        self.vouchers.append(document["id"])
        return document["id"]

    def voucher_key(self, name: str = "") -> dict[str, str]:
        """The header of the next voucher, or of the one so named. It leads to the first of several shards if the row knows
        of no others."""
        key = f"{self.fault.name}-{name or len(self.vouchers)}"
        while self.fault.shards == 1 and slot_of(key) % len(self.stack.shards) != 0:
            key += "."
        return {"Idempotency-Key": key}

    def count_descriptors(self) -> None:
        """Counts those of instances that are ready and have no clients, until two counts agree. A restarted one needs
        as many."""
        for instance in self.stack.instances:
            before = -1
            while (now := instance.fds()) != before:
                before = now
                time.sleep(0.03)
            instance.fds_at_start = now

    def load_and_inject(self) -> int:
        """Returns how long after the fault the service was back, in ms."""
        fault = self.fault
        ports = [instance.port for instance in self.stack.instances]
        self.crowd = crowd = Shoppers(ports, self.rng, self.history, fault.habits)
        self.watch.start()
        self.feed.start()
        crowd.start(self.vouchers, fault.seconds, fault.rate, fault.users, fault.spread, fault.opposite)
        try:
            time.sleep(fault.seconds * self.LEAD_IN)
            fault.inject(self)
            if not self.healed_at:
                self.healed()
            self.restart_the_dead()
            return self.wait_until_back()
        finally:
            crowd.join()

    def restart_the_dead(self) -> None:
        for instance in self.stack.instances:
            if not instance.alive():
                instance.run()

    def wait_until_back(self) -> int:
        """Waits until a new user gets a definite answer from every instance; ms since the fault was healed."""
        n = 0
        for instance in self.stack.instances:
            deadline = Deadline(self.patience(BACK_S))
            while True:
                n += 1
                voucher = self.vouchers[n % len(self.vouchers)]
                event = self.buy(f"back{instance.number}-{n}", instance, 5.0, voucher)
                if event.status == 201 or event.code in REFUSALS:
                    break
                if deadline.passed():
                    self.miss(f"{instance.name} is not back: {event.status} {event.code}")
                    break
                time.sleep(0.02)
        return int((time.monotonic() - self.healed_at) * 1000)

    def patience(self, seconds: float) -> float:
        return seconds * 3 if self.terms.sanitized else seconds

    # ---- what is left ----

    def told(self, history: list[Event]) -> str:
        """What to ask about these answers; the end of the transaction that BOOKS begins."""
        words = {"buy": "buy", "hung": "buy", "pay": "pay", "cancel": "cancel"}
        answers = [
            {
                "nth": nth,
                "what": words[event.what],
                "answer": event.told,
                "excused": False,
                "voucher": int(event.voucher),
                "user": event.user,
                "quantity": event.quantity,
                "id": event.order or None,
                "reference": event.reference,
            }
            for nth, event in enumerate(history)
            if event.what in words and event.voucher in self.vouchers
        ]
        # Each shard looks at the answers about its own vouchers.
        own = "(select jsonb_agg(t) from jsonb_array_elements($told$" + json.dumps(answers) + "$told$) as t"
        own += " where (t->>'voucher')::bigint in (select id from seckill_voucher))"
        asked = ANSWERS.replace("$1", own)
        return f"select 'told', breaks, wrong from ({asked}) as judge;\ncommit;\n"

    def read_world(self) -> World:
        rows: dict[str, list[list[str]]] = {}
        history = list(self.history)  # before the rows, which must have all of it
        for row in self.stack.postgres.sql(BOOKS % OVERDUE_S + self.told(history)):
            rows.setdefault(row[0], []).append(row[1:])
        orders: dict[str, list[Order]] = {}
        for voucher, *row, quantity, request_key, due in rows.get("order", []):
            orders.setdefault(voucher, []).append(Order(*row, int(quantity), request_key, float(due)))
        vouchers, in_redis = {}, self.read_redis()
        for row in rows.get("voucher", []):
            if (id := row[0]) not in self.vouchers:
                continue
            pairs, state, journal = in_redis[id]
            units, epochs, limit, price = map(int, row[1:5])
            held = [one for one in rows.get("held", []) if one[0] == id]
            before = [units - int(one[2]) for one in rows.get("change", []) if one[0] == id]  # each change
            vouchers[id] = Voucher(
                id,
                units=units,
                orders=orders.get(id, []),
                held={one[1]: one[2] for one in held},
                held_units=sum(int(one[3]) for one in held),
                redis_stock=int(state[1] or -1),
                buyers={user: order[:36] for user, order in zip(pairs[::2], pairs[1::2])},  # a key may follow the id
                journal=journal,
                state=state[0] or "missing",
                window=row[5],
                retired=row[6] == "retired",
                rebuilds=epochs,
                due_state=row[6],
                units_least=min([units, *before]),
                units_most=max([units, *before]),
                limit=limit,
                price=price,
                orders_most=int(row[7]),
                scope=row[8],
            )
        moves = rows.get("move", [])
        told_wrong: dict[str, list[str]] = defaultdict(list)
        for breaks, wrong in rows.get("told", []):
            told_wrong[breaks].append(wrong)
        return World(
            history,
            vouchers,
            rows_wrong=[row[0] for row in rows.get("wrong", [])],
            told_wrong=told_wrong,
            letters=sum(int(row[0]) for row in rows["letters"]),
            letters_expected=self.fault.letters,
            logs=self.logs(),
            leaks=self.leaks,
            may_differ=self.fault.may_differ,
            taken=self.taken,
            withdrawn=self.withdrawn,
            cut=self.cut,
            retirement_may_stop=self.retirement_may_stop,
            unseen=self.unseen,
            refused_most=self.fault.refused_202 + self.refused_more + self.count_refused(),
            rebuilds_most=self.fault.rebuilds,
            unknown_most=self.unknown_most(),
            samples=list(self.watch.samples),
            stalls=list(self.watch.stalls),
            holds=list(self.watch.holds),
            delays=MACHINE.since(self.began),
            foreign=self.foreign(),
            ends=self.ends,
            strangers=self.strangers,
            lists=self.lists,
            listed=self.listed,
            fresh=self.fresh,
            lost_202=self.fault.lost_202 + self.count_lost(),
            given_up=self.fault.given_up,
            moves=[
                Move(row[0], state, row[2], float(row[3]), row[4])
                for row, state in zip(moves, states((row[0], row[1], row[5]) for row in moves))
            ],
            extended=[(row[0], row[1]) for row in rows.get("extended", [])],
            events=[(row[0], row[1]) for row in rows.get("event", [])],
            migrated_at=self.migrated_at,
            payments=[Payment(row[0], row[1], row[2], int(row[3]), float(row[4])) for row in rows.get("payment", [])],
            overdue=[row[0] for row in rows.get("overdue", [])],
            late_s=self.fault.late_s * (3 if self.terms.sanitized else 1),
            feed=self.feed.catch_up(),
        )

    def count_lost(self) -> int:
        """How many orders an instance took with it: those that it had accepted, or not yet answered, while nothing was
        committed. How many these are depends on the machine."""
        if self.lost_with is None:
            return 0
        number, since, until = self.lost_with
        under_way = [e for e in self.history if e.instance == number and since < e.ended and e.began < until]
        return sum(event.status in (0, 202) for event in under_way)

    def unknown_most(self) -> float:
        if not self.terms.judges_time:
            return 1.0
        return self.fault.unknown * (2 if self.terms.sanitized else 1)

    def read_redis(self) -> dict[str, list]:
        """Each voucher's buyers, state and stock, and journal length."""
        keys = [f"seckill:{self.name(id)}:" for id in self.vouchers]
        buyers = self.redis.calls(["HGETALL", key + "buyers"] for key in keys)
        states = self.redis.calls(["HMGET", key + "voucher", "state", "stock"] for key in keys)
        journals = self.redis.calls(["XLEN", key + "journal"] for key in keys)
        return {id: list(found) for id, *found in zip(self.vouchers, buyers, states, journals)}

    def logs(self) -> list[str]:
        return [line for instance in self.stack.instances for line in instance.text().splitlines()]

    def foreign(self) -> list[str]:
        own = "array[" + ",".join(self.vouchers) + "]::bigint[]"
        rows = [row[0] for row in self.stack.postgres.sql(FOREIGN_ROWS % {"own": own})]
        return rows + self.redis.call("EVAL", STRAY_KEYS, 0, *map(self.name, self.vouchers))

    def settle(self, reads: int = 2) -> dict[str, list[str]]:
        """Waits until this many checks find nothing that waiting could resolve, or the time is over."""
        deadline, quiet = Deadline(self.patience(SETTLE_S)), 0
        while True:
            self.settled = self.read_world()
            complaints = checker.check(self.settled)
            quiet = quiet + 1 if complaints.keys() <= checker.HOPELESS else 0
            if quiet >= reads or deadline.passed():
                return complaints
            time.sleep(0.4)

    def read_list(self, user: str, instance: Instance) -> OrderList:
        """Reads all pages. The first page tells whether the list is complete."""
        status, page = self.read_page(user, instance, "/orders")
        whole = OrderList(user, status, page.get("complete", False), {order["id"] for order in page.get("orders", [])})
        while whole.status == 200 and "next" in page:
            whole.status, page = self.read_page(user, instance, f"/orders?cursor={page['next']}")
            whole.orders |= {order["id"] for order in page.get("orders", [])}
        return whole

    def read_page(self, user: str, instance: Instance, path: str) -> tuple[int, dict]:
        """A 503 says that PostgreSQL was late, as it may be on a late machine: the request is repeated."""
        deadline = Deadline(self.patience(DEFINITE_S))
        while (answer := instance.ask("GET", path, user))[0] == 503 and not deadline.passed():
            time.sleep(0.2)
        return answer

    def ask_at_the_end(self) -> dict[str, list[str]]:
        """All is quiet. Each accepted order is read, a new user requests vouchers, and some with an ended order buy
        again; then all is judged again."""
        self.let_expire()
        for instance in self.stack.instances:
            wait_for(f"{instance.name} ready", instance.ready, self.patience(BACK_S))  # its links may be coming back
        self.ends = [Event(0, 0, "end", e.user, e.voucher, 0, order=e.order) for e in self.settled.accepted().values()]
        some = self.rng.sample(self.ends, min(STRANGERS, len(self.ends)))
        self.strangers = [Event(0, 0, "stranger", "stranger", e.voucher, 0, order=e.order) for e in some]
        self.read([*self.ends, *self.strangers])
        users = sorted({event.user for event in self.ends})
        self.listed = self.listed_more + len(self.stack.postgres.sql("select id from seckill_voucher where state <> 'retired'"))
        for user in self.rng.sample(users, min(LISTS, len(users))):
            self.lists.append(self.read_list(user, self.rng.choice(self.stack.instances)))
        time.sleep(self.fault.mark_s())  # an instance may still cache its sold-out refusal for so long
        vouchers = list(self.settled.vouchers.items())
        for id, voucher in self.rng.sample(vouchers, min(ASKED, len(vouchers))):
            ask = lambda id=id: self.buy(f"fresh{id}", self.rng.choice(self.stack.instances), 5.0, id)
            event = self.definite(ask)
            if event.code == "LOADING":  # the first purchase after Redis's clock went back: the hold begins again
                time.sleep(self.fault.mark_s())
                event = self.definite(ask)
            self.fresh.append(Fresh(voucher.redis_stock, event))
        for event in self.former_owners():
            stock = int(self.redis.call("HGET", f"seckill:{self.name(event.voucher)}:voucher", "stock") or -1)
            instance = self.rng.choice(self.stack.instances)
            again = self.definite(lambda event=event, one=instance: self.buy(event.user, one, 5.0, event.voucher))
            self.fresh.append(Fresh(stock, again))
        bought = [one.event for one in self.fresh if one.event.status in (201, 202)]
        if any(event.status == 202 for event in bought):
            wait_for("commits", lambda: not any(v.journal for v in self.read_world().vouchers.values()))
        new = [Event(0, 0, "end", e.user, e.voucher, 0, order=e.order) for e in bought]
        self.read(new)
        self.ends += new
        return self.settle(1)

    def let_expire(self) -> None:
        """Waits for unpaid orders to expire: none may move by itself during the final reads. A row may have opened a
        voucher of its own, with another time to pay."""
        within_s = max(self.fault.habits.pay_within_s, FINAL_READS_S)
        soon = time.time() + within_s
        unpaid = lambda: any(o.status == "unpaid" and 0 < o.due < soon for o in self.settled.orders().values())
        deadline = Deadline(self.patience(within_s + OVERDUE_S))
        while unpaid() and not deadline.passed():  # orders left then are overdue
            time.sleep(0.3)
            self.settled = self.read_world()
        self.settle()

    def former_owners(self) -> list[Event]:
        """Some users with an ended order; they may buy again, each once in a scope."""
        gone = {
            (voucher.scope or id, order.user): Event(0, 0, "buy", order.user, id, 0)
            for id, voucher in self.settled.vouchers.items()
            for order in voucher.orders
            if order.status in ENDED and not voucher.retired
            and not any(order.user in one.kept for one in self.settled.scope_of(voucher))
        }
        return self.rng.sample([*gone.values()], min(FORMER, len(gone)))

    def read(self, questions: list[Event]) -> None:
        """Each from an instance picked at random."""
        mine: dict[int, list[Event]] = {}
        for event in questions:
            event.instance = self.rng.randrange(len(self.stack.instances))
            mine.setdefault(event.instance, []).append(event)
        for number, events in mine.items():
            asyncio.run(ask_all(self.stack.instances[number].port, events))

    def find_leaks(self) -> None:
        for instance in self.stack.instances:
            try:
                wait_for("descriptors", lambda: instance.fds() <= instance.fds_at_start, self.patience(6))
            except Broken:
                self.leaks.append(f"{instance.name}: {instance.fds()} descriptors, {instance.fds_at_start} at start")

    def unexpected_exits(self) -> list[str]:
        return [
            f"{instance.name} ended with {code}"
            for instance in self.stack.instances
            for code in instance.exits
            if code not in instance.expected_exits
        ]

    def measured(self) -> dict[str, float]:
        """The values that the row's limits apply to."""
        refused = {o.id for v in self.settled.vouchers.values() for o in v.orders if o.status == "refused"}
        return {
            "refused_202": sum(order in refused for order, _ in self.settled.accepted()),
            "rebuilds": sum(v.rebuilds for v in self.settled.vouchers.values()),
            "unknown_share": round(self.settled.unknown_share()[0], 3),
        }


def judge(run: Run, result: Result) -> None:
    """Judges while the instances run, and again after they have ended: their last log lines, and their exits."""
    result.complaints = run.settle()
    if result.complaints.keys() <= checker.HOPELESS:
        result.complaints = run.ask_at_the_end()
    result.measured = run.measured()
    run.find_leaks()
    run.watch.stop()
    run.feed.stop()
    run.stack.land()
    last = World([], {}, logs=run.logs(), exits=run.unexpected_exits(), leaks=run.leaks)
    if complaints := checker.processes_are_well(last):
        result.complaints["processes_are_well"] = complaints
    if run.seen_meanwhile:
        result.complaints["seen_meanwhile"] = run.seen_meanwhile


def run_fault(stack: Stack, fault: Fault, seed: int, terms: Terms = Terms(), kind: type[Run] = Run) -> Result:
    began, result = time.monotonic(), Result(fault)
    run = kind(stack, fault, seed, terms)
    try:
        run.prepare()
        run.count_descriptors()
        result.recovery_ms = run.load_and_inject()
        judge(run, result)
    except NotInjectable as reason:
        result.ran, result.why = False, str(reason)
    except Broken as reason:
        result.complaints["the suite"] = [str(reason)]
        if run.seen_meanwhile:
            result.complaints["seen_meanwhile"] = run.seen_meanwhile
    finally:
        run.watch.stop()
        run.feed.stop()
        stack.land()
        stack.unmount()
    result.fault, result.too_late = run.fault, run.too_late
    result.machine_late = run.machine_late_s(run.began) / (time.time() - run.began)
    events = [*run.history, *(run.ends or []), *run.strangers]
    write_history(stack.folder / f"history-{fault.name}.jsonl", events)
    with open(stack.folder / f"world-{fault.name}.json", "w", encoding="utf-8") as file:
        vouchers = [asdict(voucher) for voucher in run.settled.vouchers.values()] if run.settled else []
        json.dump({"vouchers": vouchers, "samples": run.watch.timed}, file, indent=1)
    for event in run.history:
        if event.what == "buy":
            result.outcomes[event.outcome] = result.outcomes.get(event.outcome, 0) + 1
    result.seconds = time.monotonic() - began
    return result
