"""Redis loads the transactions of its append-only file, in which form scripts are stored, with the rights of the user
`default`. Both stores and the instance are killed with orders granted and not committed. With the shipped file of
rights every order is there afterwards; with a `default` without rights, the control, none is."""

from __future__ import annotations

import os
import signal
import subprocess
from datetime import datetime, timedelta, timezone

from stack import REDIS_PASSWORD, Instance, RedisServer, Stack, rights, wait_for

ORDERS = 20
WITHOUT_RIGHTS = "user default off resetchannels -@all"


class GuardedRedis(RedisServer):
    """Admits nobody without a user name."""

    login = ("judge", REDIS_PASSWORD)


def start(stack: Stack, acl: str) -> None:
    if stack.redis is not None:
        stack.redis.end(signal.SIGKILL)
    stack.servers += 1
    stack.redis = GuardedRedis(stack.folder, f"guarded-{stack.servers}")
    stack.redis.acl.write_text(acl)
    stack.redis_settings = ("always",)
    stack.redis.run(*stack.redis_settings)
    stack.prepare("always")
    stack.launch(1, {}, {}, False)


def grant(stack: Stack) -> dict[str, str]:
    """User -> order, for orders that Redis has granted and PostgreSQL does not have."""
    one, now = stack.instances[0], datetime.now(timezone.utc)
    at = lambda hours: (now + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")
    terms = {"title": "Loading", "stock": ORDERS, "price_cents": 1, "begin_at": at(-1), "end_at": at(24)}
    voucher = one.ask("POST", "/admin/vouchers", body=terms)[1]["id"]
    hold = "begin; lock table voucher_order in share mode; select pg_sleep(60)"
    holder = subprocess.Popen(stack.postgres.psql("seckill", "-c", hold), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    held = "select 1 from pg_locks where relation = 'voucher_order'::regclass and mode = 'ShareLock' and granted"
    wait_for("the lock", lambda: stack.postgres.sql(held))
    told = {}
    for n in range(ORDERS):
        status, order = one.ask("POST", f"/seckill/{voucher}", f"u{n}", headers={"Prefer": "respond-async"})
        if status == 202:
            told[f"u{n}"] = order["id"]
    one.expected_exits.add(-signal.SIGKILL)
    one.end(signal.SIGKILL)
    stack.redis.end(signal.SIGKILL)
    stack.postgres.stop_immediate()
    holder.wait()
    return told


def found(one: Instance, orders: dict[str, str]) -> int:
    return sum(one.ask("GET", f"/orders/{order}", user)[1].get("status") == "unpaid" for user, order in orders.items())


def checked(stack: Stack) -> str:
    """The result of seckill --check on `default`, for the suite's user and for the service's."""
    lines = []
    for url in (f"redis://judge:{REDIS_PASSWORD}@127.0.0.1:{stack.redis.port}", stack.store_urls(False)["SECKILL_REDIS_URL"]):
        env = os.environ | stack.store_urls(False) | {"SECKILL_REDIS_URL": url}
        said = subprocess.run([str(stack.binary), "--check"], env=env, capture_output=True, text=True).stdout
        lines += [line[:4] for line in said.splitlines() if line[5:].startswith("redis user default")]
    return " ".join(line.strip() for line in lines)


def restarted(stack: Stack, default: str) -> tuple[int, int, str]:
    """The number of orders granted, the number left, and the result of the check."""
    start(stack, rights(default, f"user judge on >{REDIS_PASSWORD} ~* &* +@all"))
    says = checked(stack)
    orders = grant(stack)
    stack.redis.run(*stack.redis_settings)
    stack.postgres.run()
    one = stack.instances[0]
    one.run()
    one.wait_ready()
    journals = lambda: all(stack.redis.call("XLEN", key) == 0 for key in stack.redis.call("KEYS", "seckill:*:journal"))
    wait_for("empty journals", journals)
    left = found(one, orders)
    print(f"`{default or 'as shipped'}`: {len(orders)} orders granted, {left} left; the check: {says}", flush=True)
    stack.land()
    return len(orders), left, says


def run(stack: Stack) -> list[str]:
    wrong = []
    granted, left, says = restarted(stack, "")
    if granted != ORDERS or left != granted or says != "ok warn":
        wrong.append(f"under deploy/redis.acl {left} of {granted} orders outlive a restart, and the check says {says}")
    granted, left, says = restarted(stack, WITHOUT_RIGHTS)
    if granted != ORDERS or left != 0 or says != "fail warn":
        wrong.append(f"the control: without rights of `default` {left} of {granted} orders are left, and the check says {says}")
    return wrong
