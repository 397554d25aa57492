"""Users with tokens, compared with users of a gateway: the same crowd, whose header fields are generated beforehand.

With HS256 each request has its own token. With a public-key signature the requests share the tokens of 10,000 users,
each of which every reactor has already checked once. Those also run without the cache, to show the cost of a check. An
order counts when its row is committed.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from bench.bounds import Outcome, in_turn
from lib import common
from lib.common import Failure, Voucher
from lib.service import Service, Side, ask

ISSUER, AUDIENCE = "https://login.example", "shop"
# The keys of RFC 7515, A.1 to A.3, and RFC 8037, A.1.
HS256 = {"kid": "hs256", "kty": "oct", "k": "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"}
EDDSA = {
    "kid": "eddsa",
    "kty": "OKP",
    "crv": "Ed25519",
    "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
    "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
}
ES256 = {
    "kid": "es256",
    "kty": "EC",
    "crv": "P-256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    "d": "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI",
}
RS256 = {
    "kid": "rs256",
    "kty": "RSA",
    "e": "AQAB",
    "n": (
        "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yR"
        "T-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXB"
        "dQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9ia"
        "GNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"
    ),
    "d": (
        "Eq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZD50LpXyWPEAeP88vLNO97IjlA7_GQ5sLKMgvfTeXZx9SE-7YwVol2NXOoAJe46su"
        "i395IW_GO-pWJ1O0BkTGoVEn2bKVRUCgu-GjBVaYLU6f3l9kJfFNS3E0QbVdxzubSu3Mkqzjkn439X0M_V51gfpRLI9JYanrC4D4"
        "qAdGcopV_0ZHHzQlBjudU2QvXt4ehNYTCBr6XCLQUShb1juUO1ZdiYoFaFQT5Tw8bGUl_x_jTj3ccPDVZFD9pIuhLhBOneufuBiB"
        "4cS98l2SR_RQyGWSeWjnczT0QU91p1DhOVRuOopznQ"
    ),
}
KEYS = json.dumps({"keys": [HS256, EDDSA, ES256, RS256]})
REFUSALS_PER_S = 200_000  # no crowd here is faster
ORDERS_PER_S = 100_000
CACHED_USERS = 10_000
WARM_UP_S = (4, 8, 16, 32, 64)  # the first that lets each of them send a request, and be checked
NOT_CACHED_S = 2


@dataclass(frozen=True)
class Crowd:
    """A file of fields, and the settings of a service that accepts them."""

    fields: Path
    users: int
    settings: dict[str, str]

    @property
    def first_field(self) -> dict[str, str]:
        with self.fields.open() as lines:
            name, _, value = lines.readline().rstrip("\n").partition(": ")
        return {name: value}


@dataclass(frozen=True)
class Rate:
    """Answers or orders a second; and the service's CPU for 1,000 answers."""

    rps: float
    cpu_ms: float


def make_crowd(side: Side, kind: str, users: int) -> Crowd:
    """`kind`: gateway, or the id of a key."""
    keys, fields = side.folder / "token-keys", side.folder / f"fields-{kind}"
    words = [str(side.stores.build.binary("seckill-tokens")), kind, str(users)]
    settings = {}
    if kind != "gateway":
        keys.write_text(KEYS)
        words += [str(keys), ISSUER, AUDIENCE]
        settings = {"SECKILL_AUTH": "token", "SECKILL_TOKEN_KEYS": str(keys)}
        settings |= {"SECKILL_TOKEN_ISSUER": ISSUER, "SECKILL_TOKEN_AUDIENCE": AUDIENCE}
    with fields.open("w") as out:
        if subprocess.run(words, stdout=out, check=False).returncode != 0:
            raise Failure("seckill-tokens made no fields")
    return Crowd(fields, users, settings)


# ---- the bounds ----


def hs256_sold_out(side: Side, seconds: int, flip: bool) -> Outcome:
    return compared(flip, *(sold_out(side, kind, REFUSALS_PER_S * seconds, seconds) for kind in ("hs256", "gateway")))


def hs256_durable(side: Side, seconds: int, flip: bool) -> Outcome:
    return compared(flip, *(durable(side, kind, ORDERS_PER_S * seconds, seconds) for kind in ("hs256", "gateway")))


def cached_sold_out(side: Side, seconds: int, flip: bool, kind: str) -> Outcome:
    outcome = compared(flip, *(sold_out(side, crowd, CACHED_USERS, seconds) for crowd in (kind, "gateway")))
    checked = sold_out(side, kind, CACHED_USERS, NOT_CACHED_S, cached=False)()
    outcome.told += f"; {checked.rps:,.0f} where each is checked ({checked.cpu_ms:.1f})"
    outcome.details["not_cached"] = vars(checked)
    return outcome


def cached_durable(side: Side, seconds: int, flip: bool, kind: str) -> Outcome:
    return compared(flip, *(durable(side, crowd, CACHED_USERS, seconds) for crowd in (kind, "gateway")))


def compared(flip: bool, tokens: Callable[[], Rate], gateway: Callable[[], Rate]) -> Outcome:
    by_token, by_gateway = in_turn(flip, tokens, gateway)
    told = (
        f"{by_token.rps:,.0f} a second with tokens ({by_token.cpu_ms:.1f} ms of the service's CPU for 1,000), "
        f"{by_gateway.rps:,.0f} with X-User-Id ({by_gateway.cpu_ms:.1f})"
    )
    return Outcome(by_token.rps / by_gateway.rps, told, details={"token": vars(by_token), "gateway": vars(by_gateway)})


# ---- a crowd's rate ----


def sold_out(side: Side, kind: str, users: int, seconds: int, cached: bool = True) -> Callable[[], Rate]:
    """Returns the function that measures the rate of refusals."""

    def measure() -> Rate:
        crowd = make_crowd(side, kind, users)
        settings = crowd.settings | ({} if cached else {"SECKILL_TOKEN_CACHE": "0"})
        with side.serving(**settings) as service:
            voucher = sell_out(service, crowd)
            if cached:
                warm_up(service, crowd, voucher)
            load, cpu = service.crowd(seconds, path=f"/seckill/{voucher.id}", fields=crowd.fields)
            must_be_sold_out(service, crowd, voucher)
        crowd.fields.unlink()
        if load.not_ok != load.requests:
            raise Failure(f"{load.requests - load.not_ok} requests of {load.requests} were not told SOLD_OUT")
        return Rate(load.rate, cpu["server"] * 1000)

    return measure


def durable(side: Side, kind: str, users: int, seconds: int) -> Callable[[], Rate]:
    """Returns the function that measures the rate of committed rows. Users buy one voucher after the other."""

    def measure() -> Rate:
        crowd = make_crowd(side, kind, users)
        with side.serving(**crowd.settings) as service:
            warm_up(service, crowd, sell_out(service, crowd))
            vouchers = service.vouchers(ORDERS_PER_S * seconds // users, units=users)
            before = service.stores.all_orders()
            path, ids = "/seckill/{voucher}", " ".join(vouchers)
            load, cpu = service.crowd(seconds, path=path, fields=crowd.fields, vouchers=ids)
            orders = service.stores.all_orders() - before
            committed = committed_between(service, vouchers, load.started_at, load.started_at + load.seconds)
        crowd.fields.unlink()
        told = load.requests - load.not_ok
        if load.not_ok > 0 or orders < told:
            raise Failure(f"{load.not_ok} refusals, {told} buyers won, {orders} rows in PostgreSQL")
        return Rate(committed / load.seconds, cpu["server"] * 1000)

    return measure


def sell_out(service: Service, crowd: Crowd) -> Voucher:
    """Sells the only unit to the crowd's first user."""
    voucher = service.voucher(units=1)
    common.wait_for("the only unit", lambda: buy(service, crowd, voucher)[0] in (201, 202), 10)
    return voucher


def buy(service: Service, crowd: Crowd, voucher: Voucher) -> tuple[int, str]:
    return ask(f"{service.url}/seckill/{voucher.id}", "POST", crowd.first_field)


def must_be_sold_out(service: Service, crowd: Crowd, voucher: Voucher) -> None:
    """The winner gets ALREADY_ORDERED, so the refusals were refusals of identified users."""
    status, text = buy(service, crowd, voucher)
    if status != 409 or "ALREADY_ORDERED" not in text:
        raise Failure(f"the winner is answered {status}: {text}")


def warm_up(service: Service, crowd: Crowd, voucher: Voucher) -> None:
    """Each user of a small crowd sends at least one request."""
    if crowd.users > CACHED_USERS:
        return
    for seconds in WARM_UP_S:
        load, _ = service.crowd(seconds, path=f"/seckill/{voucher.id}", fields=crowd.fields)
        if load.requests >= crowd.users:
            return
    raise Failure(f"{load.requests} requests in {seconds} s warm up no {crowd.users} users")


def committed_between(service: Service, vouchers: list[str], begin: float, end: float) -> int:
    [[count]] = service.stores.postgres.rows(
        f"SELECT count(*) FROM voucher_order WHERE voucher_id IN ({', '.join(vouchers)})"
        f" AND status::text <> 'refused' AND created_at >= to_timestamp({begin}) AND created_at < to_timestamp({end})"
    )
    return int(count)
