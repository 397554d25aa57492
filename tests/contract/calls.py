"""The requests to send: for each call, those that the document allows, and those that it forbids."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from urllib.parse import quote

from document import Document, Exchange, Operation, examples_of
from service import PAYMENTS_TOKEN, READ_TOKEN, Shop, bearer, signed, user

BAD_NUMBERS = ("", "abc", "0", "-1", "%2B1", "01", "1.0", "1e3", "9223372036854775808", "4" * 400, "1%00x", "%FF")
BAD_ORDERS = ("", "x", "01a1ff71-fdd4-746e-a972-2a140b58440", "01a1ff71-fdd4746e-a972-2a140b584401")
ODD_BODIES = (b"", b"{", b"[]", b"null", b'"x"', b"1", b"{}x", b'{"a":1,"a":2}', b"{\"a\":NaN}", b"[" * 10000, b'{"a":"\\u0000"}')
ODD_BODIES += (b'{"a":"\\ud800"}', b'{"a":1e999}', b'{"a":"\xff"}')
TEXTS = ("wait", "while")  # parameters that only work together
OF_VOUCHERS = ("voucher", "ids")  # parameters that need an existing voucher
STREAMS = ("followSale", "followSales")


class Caller:
    """Makes requests for an operation, each with its own data if it changes that data."""

    def __init__(self, document: Document, shop: Shop):
        self.document, self.shop = document, shop

    # ---- the path ----

    def place(self, operation: Operation) -> str:
        """The path, with existing data."""
        values: dict[str, str] = {}
        voucher = self.shop.voucher()
        values["voucher"] = voucher
        if "{letter}" in operation.path:
            values["letter"] = self.shop.letter(voucher, "01a1ff71-fdd4-746e-a972-2a140b584401 carol")
        if "{order}" in operation.path:
            values["order"] = self.shop.order(voucher)
        if operation.id == "refundOrder":
            self.pay(values["order"])
        if operation.id == "resumeVoucher":
            self.shop.main.ask("POST", f"/admin/vouchers/{voucher}/pause", bearer())
        if operation.id == "listWebhookReceivers":
            self.shop.receiver()
        self.voucher = voucher
        return operation.path.format(**values)

    def pay(self, order: str) -> None:
        self.shop.main.ask(
            "POST",
            f"/orders/{order}/pay",
            bearer(PAYMENTS_TOKEN),
            {"reference": f"r-{order[-12:]}-{order[:8]}", "amount_cents": 990, "currency": "CNY"},
        )

    # ---- the caller ----

    def callers(self, operation: Operation, path: str, body: bytes = b"") -> list[list[tuple[str, str]]]:
        """One set of headers for each of the document's ways to authenticate."""
        tokens = {"read": READ_TOKEN, "payments": PAYMENTS_TOKEN}
        signs = any(p["name"] == "X-Seckill-Signature" for p in self.document.parameters(operation))
        found = []
        for requirement in operation.raw["security"]:
            if not requirement:  # headers that are no credentials
                found.append(signed(path, body) if signs else user("alice"))
            elif "adminToken" in requirement:
                found.append(bearer(tokens.get(requirement["adminToken"][0], "") or bearer()[0][1].removeprefix("Bearer ")))
        return found or [[]]

    # ---- allowed ----

    def allowed(self, operation: Operation) -> Iterator[Exchange]:
        ask = self.shop.main.ask
        body = self.document.body(operation)
        bodies: list[bytes | None] = [None]
        if body is not None:
            media = body["content"]["application/json"]
            bodies = [json.dumps(example).encode() for example in examples_of(self.document, media)]
            bodies += [] if body.get("required") else [None]
        for one in bodies:
            path = self.place(operation)
            for who in self.callers(operation, path, one or b""):
                path = self.place(operation)
                if who and who[0][0].startswith("X-Seckill"):
                    who = signed(path, one or b"")
                kind = [] if one is None else [("Content-Type", "application/json")]
                yield ask(operation.method, self.with_query(operation, path), who + kind, one)
        for name, query, headers in self.parameter_sets(operation):
            path = self.place(operation)
            who = self.callers(operation, path, bodies[0] or b"")[0]
            kind = [] if bodies[0] is None else [("Content-Type", "application/json")]
            yield ask(operation.method, self.with_query(operation, path, query), who + kind + headers, bodies[0])
        if operation.method == "GET" and operation.id not in STREAMS:
            yield ask("HEAD", self.with_query(operation, self.place(operation)), self.callers(operation, "")[0])

    def ready(self, operation: Operation) -> tuple[str, str, list[tuple[str, str]], bytes | None]:
        """An allowed request, to be sent later."""
        path, body = self.place(operation), self.document.body(operation)
        text = None
        if body is not None:
            text = json.dumps(examples_of(self.document, body["content"]["application/json"])[0]).encode()
        kind = [] if text is None else [("Content-Type", "application/json")]
        return operation.method, self.with_query(operation, path), self.callers(operation, path, text or b"")[0] + kind, text

    def with_query(self, operation: Operation, path: str, more: dict[str, str] | None = None) -> str:
        needed = [p for p in self.query(operation) if p["name"] in OF_VOUCHERS or p.get("required")]
        query = {p["name"]: self.voucher if p["name"] in OF_VOUCHERS else p["example"] for p in needed} | (more or {})
        return path + ("?" + "&".join(f"{name}={quote(value)}" for name, value in query.items()) if query else "")

    def query(self, operation: Operation) -> list[dict]:
        return [p for p in self.document.parameters(operation) if p["in"] == "query"]

    def parameter_sets(self, operation: Operation) -> Iterator[tuple[str, dict[str, str], list[tuple[str, str]]]]:
        """Each optional parameter alone, and all of them."""
        query, headers = {}, []
        for parameter in self.document.parameters(operation):
            if "example" not in parameter or parameter["in"] == "path" or parameter.get("required"):
                continue
            name, value = parameter["name"], str(parameter["example"])
            if parameter["in"] == "query":
                query[name] = value
                if name not in TEXTS:
                    yield name, {name: value}, []
            else:
                headers.append((name, value))
                yield name, {}, [(name, value)]
        if len(query) + len(headers) > 1:
            yield "all", query, [(n, v) for n, v in headers if n != "Idempotency-Key"]

    # ---- forbidden: none of these may succeed ----

    def forbidden(self, operation: Operation) -> Iterator[Exchange]:
        path = self.place(operation)
        yield from self.without_right(operation, path)
        yield from self.bad_places(operation)
        yield from self.bad_parameters(operation, path)
        if self.document.body(operation) is not None:
            yield from self.bad_bodies(operation, path)
        yield from self.bad_heads(operation, path)

    def without_right(self, operation: Operation, path: str) -> Iterator[Exchange]:
        if not operation.raw["security"]:
            return
        target, ask = self.with_query(operation, path), self.shop.main.ask
        wrong = [[], bearer("wrong-token"), [("Authorization", "Basic YTpi")], user("a b"), user(""), user("a") + user("b")]
        wrong += [signed(path, b"", at=1.0), [("X-Seckill-Signature", "00"), ("X-Seckill-Timestamp", "0")], bearer() + bearer()]
        for headers in wrong:
            if self.callers(operation, path)[0][:1] == headers[:1] and len(headers) == 1:
                continue
            yield ask(operation.method, target, headers)
        if "adminToken" in operation.raw["security"][0]:
            other = PAYMENTS_TOKEN if operation.raw["security"][0]["adminToken"] != ["payments"] else READ_TOKEN
            yield ask(operation.method, target, bearer(other))
            yield ask(operation.method, target, user("alice"))

    def bad_places(self, operation: Operation) -> Iterator[Exchange]:
        for name, bad in (("voucher", BAD_NUMBERS), ("letter", BAD_NUMBERS), ("order", BAD_ORDERS)):
            if f"{{{name}}}" not in operation.path:
                continue
            good = {"voucher": self.voucher, "letter": "1", "order": "01a1ff71-fdd4-746e-a972-2a140b584401"}
            for value in bad:
                path = operation.path.format(**(good | {name: value}))
                body = b"{}" if self.document.body(operation) else None
                kind = [("Content-Type", "application/json")] if body else []
                who = self.callers(operation, path, body or b"")[0]
                yield self.shop.main.ask(operation.method, self.with_query(operation, path), who + kind, body)

    def bad_parameters(self, operation: Operation, path: str) -> Iterator[Exchange]:
        ask, who = self.shop.main.ask, self.callers(operation, path)[0]
        for parameter in self.document.parameters(operation):
            if parameter["in"] == "path":
                continue
            for value in bad_values(self.document.follow(parameter["schema"])):
                if parameter["in"] == "query":
                    yield ask(operation.method, self.with_query(operation, path, {parameter["name"]: value}), who)
                elif value.isascii():
                    kind = [("Content-Type", "application/json")] if self.document.body(operation) else []
                    body = b"{}" if kind else None
                    yield ask(operation.method, path, who + kind + [(parameter["name"], value)], body)
            if parameter["in"] == "query":
                twice = self.with_query(operation, path)
                twice += "&" if "?" in twice else "?"
                value = quote(str(parameter.get("example", "A" * 36)))
                yield ask(operation.method, f"{twice}{parameter['name']}={value}&{parameter['name']}={value}", who)
        kind, body = ([("Content-Type", "application/json")], b"{}") if self.document.body(operation) else ([], None)
        for query in ({"x": "\x00"}, {"x": "1"}, {"_": "1767225600"}, {"LIMIT": "1"}, {"x" * 300: ""}):
            target = self.with_query(operation, path, query)
            yield ask(operation.method, target, self.callers(operation, target, body or b"")[0] + kind, body)

    def bad_bodies(self, operation: Operation, path: str) -> Iterator[Exchange]:
        ask = self.shop.main.ask
        media = self.document.body(operation)["content"]["application/json"]
        schema = self.document.follow(media["schema"])
        optional = not self.document.body(operation).get("required")
        for body in [*ODD_BODIES, *mutations(schema, examples_of(self.document, media)[0])]:
            if body == b"" and optional:
                continue
            who = self.callers(operation, path, body)[0]
            yield ask(operation.method, path, who + [("Content-Type", "application/json")], body)
        encoded = [("Content-Type", "application/json"), ("Content-Encoding", "gzip")]
        for kind in ([], [("Content-Type", "text/plain")], [("Content-Type", "application/jsonx")], encoded):
            who = self.callers(operation, path, b"{}")[0]
            yield ask(operation.method, path, who + kind, b'{"quantity":1}')

    def bad_heads(self, operation: Operation, path: str) -> Iterator[Exchange]:
        who, ask = self.callers(operation, path)[0], self.shop.main.ask
        yield ask(operation.method, path, who + [("Host", "other")])
        yield ask(operation.method, path, who + [("Content-Length", "99999999")])
        for method in ("DELETE", "TRACE", "BREW"):
            yield ask(method, path, who)


def bad_values(schema: dict) -> list[str]:
    """Texts that this parameter's schema forbids."""
    if schema.get("type") == "array":
        most = ",".join(str(one) for one in range(1, schema["maxItems"] + 2))
        return ["", ",", "x", "1,", "1,1", "1,-2", "1 2", "[1]", most]
    if schema.get("type") == "integer":
        return ["", "x", "-1", "1.5", "%31", "+1", str(schema["minimum"] - 1), str(schema["maximum"] + 1), "9" * 30]
    if "enum" in schema:
        return ["", "nothing", schema["enum"][0].upper()]
    if schema.get("format") == "date-time":
        return ["", "yesterday", "2026-02-30T00:00:00Z", "2026-01-31"]
    if "pattern" in schema:
        return ["", "a b", "\u00e9", "x" * 300, "A" * 36 if "36" in schema["pattern"] else ""]
    return []


def mutations(schema: dict, example: dict) -> Iterator[bytes]:
    """Bodies that are an object, but violate the schema."""
    full = dict(example)
    for name in schema.get("required", []):
        yield json.dumps({n: v for n, v in full.items() if n != name}).encode()
    yield json.dumps(full | {"unknown_member": 1}).encode()
    if "minProperties" in schema:
        yield b"{}"
    if "maxProperties" in schema:
        yield json.dumps({name: 1 for name in schema["properties"]}).encode()
    for name, member in schema["properties"].items():
        base = {n: v for n, v in full.items() if n in schema.get("required", [])}
        for value in bad_members(member):
            yield json.dumps(base | {name: value}).encode()
        text = json.dumps(base | {name: full.get(name, 1)})
        yield (text[:-1] + f', "{name}": 1}}').encode()


def bad_members(schema: dict) -> list:
    if isinstance(schema.get("type"), list):  # a boolean or an integer
        return [schema["minimum"] - 1, schema["maximum"] + 1, 1.5, "1", "true", None, [], {}]
    if schema.get("type") == "integer":
        return [schema["minimum"] - 1, schema["maximum"] + 1, 1.5, "1", True, None, [], {}, 2**63, -(2**70)]
    if schema.get("type") == "boolean":
        return ["true", 1, None, []]
    if schema.get("format") == "date-time":
        return ["", "yesterday", 1767225600, None, "2026-02-30T00:00:00Z", "1969-12-31T23:59:59Z"]
    found: list = [1, None, True, [], {}]
    if schema.get("minLength") or not re.search(schema.get("pattern", ""), ""):
        found.append("")
    if "maxLength" in schema:
        found.append("x" * (schema["maxLength"] + 1))
    if "pattern" in schema:
        found += ["\u00e9\u00e9\u00e9", "x" * 65, "a b"]
    return found
