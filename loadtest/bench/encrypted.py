"""The price of TLS to Redis: the same crowd, the same Redis, with and without it. An order counts when its row is
committed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Callable

from bench.bounds import Outcome, in_turn
from bench.identity import committed_between
from lib.common import Failure
from lib.servers import free_port
from lib.service import Side


def tls_durable(side: Side, seconds: int, flip: bool) -> Outcome:
    if side.stores.redis.host != "127.0.0.1":
        raise Failure(f"Redis is at {side.stores.redis.host}: its certificate would not be for that")
    certificate, key = make_certificate(side.folder)
    port = free_port()
    plain_url = side.stores.redis.url
    tls_url = plain_url.replace("redis://", "rediss://").replace(f":{side.stores.redis.port}/", f":{port}/")
    side.stores.redis.call(
        *("CONFIG", "SET", "tls-cert-file", certificate, "tls-key-file", key, "tls-ca-cert-file", certificate),
        *("tls-auth-clients", "no", "tls-port", port),
    )
    try:
        by_tls, plain = in_turn(
            flip,
            orders(side, seconds, SECKILL_REDIS_URL=tls_url, SECKILL_REDIS_CA=certificate),
            orders(side, seconds, SECKILL_REDIS_URL=plain_url),
        )
    finally:
        side.stores.redis.call("CONFIG", "SET", "tls-port", 0)
    told = "{:,.0f} orders a second by TLS ({:.1f} ms of CPU in the service and {:.1f} in Redis for 1,000), {:,.0f} plain"
    told = (told + " ({:.1f} and {:.1f})").format(*by_tls, *plain)
    return Outcome(by_tls[0] / plain[0], told, details={"tls": by_tls, "plain": plain})


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Self-signed, for the address of loopback: it is its own authority."""
    certificate, key = folder / "redis.crt", folder / "redis.key"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-subj", "/CN=redis", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    if subprocess.run(words, capture_output=True, check=False).returncode != 0:
        raise Failure("openssl made no certificate")
    return certificate, key


def orders(side: Side, seconds: int, **settings: object) -> Callable[[], tuple[float, float, float]]:
    """Returns the function that measures committed orders a second, and the CPU of the service and of Redis for 1,000
    answers in ms."""

    def measure() -> tuple[float, float, float]:
        with side.serving(**settings) as service:
            voucher = service.voucher()
            load, cpu = service.crowd(seconds, path=f"/seckill/{voucher.id}")
            committed = committed_between(service, [voucher.id], load.started_at, load.started_at + load.seconds)
        if load.not_ok > 0 or committed == 0:
            raise Failure(f"{load.not_ok} buyers lost, {committed} orders are committed")
        return committed / load.seconds, cpu["server"] * 1000, cpu["redis"] * 1000

    return measure
