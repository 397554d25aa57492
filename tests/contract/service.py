"""A running instance for the contract test: it keeps every exchange, to be judged by the document."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / other) for other in ("faults", "proxies")]

from document import Exchange  # noqa: E402
from stack import ADMIN_TOKEN, PAYMENT_SECRET, PAYMENTS_TOKEN, Instance, Stack, wait_for  # noqa: E402

READ_TOKEN = "contract-reader-token"
ORIGINS = ("https://shop.example", "http://localhost:3000")  # whose pages may call
PAGES = (ORIGINS[0], "https://other.example", "", ORIGINS[1])  # origins of the requests, in turn; "": not from a page
WAIT_S = 15


class Service:
    """One instance, and the exchanges with it."""

    def __init__(self, instance: Instance, exchanges: list[Exchange]):
        self.instance, self.exchanges = instance, exchanges
        self.origins = tuple(instance.env.get("SECKILL_CORS_ORIGINS", "").split())

    def ask(self, method: str, target: str, headers=(), body: bytes | dict | None = None, link=None) -> Exchange:
        """`headers`: pairs, of which several may have the same name."""
        headers = list(headers)
        page = PAGES[len(self.exchanges) % len(PAGES)]
        if page not in self.origins and method not in ("GET", "HEAD", "OPTIONS"):
            page = page and f"http://127.0.0.1:{self.instance.port}"  # the service's own origin: other origins may not
        if page and all(name != "Origin" for name, _ in headers):
            headers.append(("Origin", page))
        if isinstance(body, dict):
            body = json.dumps(body).encode()
            headers.append(("Content-Type", "application/json"))
        exchange = Exchange(method, target, headers, body, origins=self.origins)
        own = link is None
        link = link or self.link()
        try:
            self._talk(link, exchange)
        finally:
            if own:
                link.close()
        self.exchanges.append(exchange)
        return exchange

    def link(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.instance.port, timeout=WAIT_S)

    @staticmethod
    def _talk(link: http.client.HTTPConnection, exchange: Exchange) -> None:
        link.putrequest(exchange.method, exchange.target, skip_accept_encoding=True)
        for name, value in exchange.headers:
            link.putheader(name, value)
        length = len(exchange.body) if exchange.body is not None else 0 if exchange.method == "POST" else None
        if length is not None and all(name != "Content-Length" for name, _ in exchange.headers):
            link.putheader("Content-Length", str(length))
        link.endheaders(exchange.body)
        answer = link.getresponse()
        exchange.status = answer.status
        exchange.fields = {name.lower(): value for name, value in answer.getheaders()}
        if exchange.fields.get("content-type") == "text/event-stream":
            while b"data:" not in exchange.answer and (line := answer.readline()):
                exchange.answer += line
            link.close()
        else:
            exchange.answer = answer.read()


def user(name: str) -> list[tuple[str, str]]:
    return [("X-User-Id", name)]


def bearer(token: str = ADMIN_TOKEN) -> list[tuple[str, str]]:
    return [("Authorization", f"Bearer {token}")]


def signed(path: str, body: bytes, at: float | None = None) -> list[tuple[str, str]]:
    now = str(int(time.time() if at is None else at))
    text = now.encode() + b"." + path.encode() + b"." + body
    mac = hmac.new(PAYMENT_SECRET.encode(), text, hashlib.sha256).hexdigest()
    return [("X-Seckill-Timestamp", now), ("X-Seckill-Signature", mac)]


class Shop:
    """The stores, one instance for most requests, and the data that calls need."""

    def __init__(self, binary: Path):
        self.exchanges: list[Exchange] = []
        self.stack = Stack(binary)
        tokens = self.stack.folder / "tokens"
        tokens.write_text(f"reader read {READ_TOKEN}\nshop payments {PAYMENTS_TOKEN}\n")
        self.stack.prepare("always")
        self.made = 0
        self.main = self.another(
            SECKILL_TICKET_SECRET="the-ticket-secret-of-the-contract", SECKILL_CORS_ORIGINS=" ".join(ORIGINS),
            SECKILL_PICTURE_ORIGINS="https://pictures.example",
        )

    def another(self, **env: str) -> Service:
        """One more instance. An empty value unsets."""
        instance = Instance(len(self.stack.instances), self.stack.folder, self.stack.binary, self.stack.store_urls(False))
        instance.env |= {"SECKILL_IDLE_TIMEOUT_MS": "30000", "SECKILL_REQUEST_TIMEOUT_MS": "10000"}
        instance.env |= {"SECKILL_TICKET_SECRET": "secret-of-the-tickets"}
        instance.env |= {name: value for name, value in env.items() if value}
        for name, value in env.items():
            if not value:
                instance.env.pop(name, None)
                os.environ.pop(name, None)
        self.stack.instances.append(instance)
        instance.run()
        instance.wait_ready()
        return Service(instance, self.exchanges)

    def voucher(self, stock: int = 100, begin_s: int = -60, end_s: int = 3600, **terms: object) -> str:
        self.made += 1
        stamp = lambda s: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + s))
        body = {"title": f"Voucher {self.made}", "stock": stock, "price_cents": 990, "limit": 2}
        body |= {"begin_at": stamp(begin_s), "end_at": stamp(end_s)} | terms
        made = self.main.ask("POST", "/admin/vouchers", bearer(), body)
        if made.status != 201:
            raise RuntimeError(f"no voucher: {made}")
        found = json.loads(made.answer)["id"]

        def is_open() -> bool:
            shown = self.main.ask("GET", f"/admin/vouchers/{found}", bearer())
            return shown.status == 200 and json.loads(shown.answer)["redis"]["state"] == "open"

        wait_for("the voucher", is_open)
        return found

    def order(self, voucher: str, who: str = "alice", service: Service | None = None) -> str:
        placed = (service or self.main).ask("POST", f"/seckill/{voucher}", user(who))
        if placed.status != 201:
            raise RuntimeError(f"no order: {placed}")
        return json.loads(placed.answer)["id"]

    def letter(self, voucher: str, orders: str | None = None) -> str:
        """A dead letter; without orders an unreadable one."""
        self.made += 1
        self.sql(
            "insert into dead_letter (slot, voucher_id, journal_id, raw, orders, reason) select slot, voucher_id,"
            f" '{self.made}-0', 'odd', {'null' if orders is None else repr(orders)}, 'UNREADABLE' from voucher_stock"
            f" where voucher_id = {voucher}"
        )
        return self.sql(f"select max(id) from dead_letter where voucher_id = {voucher}")[0][0]

    def receiver(self, database: str = "seckill") -> None:
        """A receiver of webhooks that fails, which an operator has resumed before. Its cursor is behind all events, or
        it would hold back the archive."""
        self.stack.postgres.sql(
            "insert into webhook_receiver (name, tx, seq, state, tries, why, unsent_at, page_tx, page_seq, page_id)"
            " values ('shop', '9223372036854775807', -1, 'failing', 2, 'HTTP 500', now(), '7', 1, 'id') on conflict do nothing;"
            " insert into admin_event (by_whom, what, voucher_id, detail)"
            " values ('alice', 'webhook_resume', 0, '{\"receiver\": \"shop\"}')",
            database,
        )

    def sql(self, script: str) -> list[list[str]]:
        return self.stack.postgres.sql(script)

    def close(self) -> None:
        self.stack.land()
        self.stack.close()
