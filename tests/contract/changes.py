"""The contract test's negative control: documents that differ from the service's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from document import PROBLEM, Document, Exchange, copied, own_codes


def changed(tree: dict, change: Callable[[dict], object]) -> dict:
    other = copied(tree)
    change(other)
    return other


def odd_documents(tree: dict) -> Iterator[tuple[str, dict]]:
    """None is a consistent OpenAPI 3.1 document. A few calls are enough: checking all of them takes a second."""
    some = ("/seckill/{voucher}", "/orders/{order}", "/vouchers")
    tree = dict(tree, paths={path: tree["paths"][path] for path in some})
    if Document(tree).faults():
        raise RuntimeError("a part of the document has faults of its own")
    buy = lambda t: t["paths"]["/seckill/{voucher}"]["post"]
    parts = lambda t: t["components"]
    odd: list[tuple[str, Callable[[dict], object]]] = [
        ("no title", lambda t: t["info"].pop("title")),
        ("another version", lambda t: t.update(openapi="3.0.3")),
        ("a member too many", lambda t: t.update(bogus=1)),
        ("a path without a slash", lambda t: t["paths"].update({"seckill": {}})),
        ("a response without a description", lambda t: parts(t)["responses"]["NotSold"].pop("description")),
        ("a status that is none", lambda t: buy(t)["responses"].update({"999": {"description": "x"}})),
        ("no way to succeed", lambda t: [buy(t)["responses"].pop(s) for s in ("201", "202")]),
        ("a parameter without a place", lambda t: parts(t)["parameters"]["limit"].pop("in")),
        ("a path parameter left out", lambda t: buy(t)["parameters"].pop(0)),
        ("a path parameter that is not required", lambda t: parts(t)["parameters"]["voucherId"].pop("required")),
        ("a body without content", lambda t: parts(t)["requestBodies"]["Payment"].pop("content")),
        ("a schema that is none", lambda t: parts(t)["schemas"]["Order"].update(type="objekt")),
        ("a security scheme without a type", lambda t: parts(t)["securitySchemes"]["adminToken"].pop("type")),
        ("a security scheme that is not there", lambda t: parts(t)["securitySchemes"].pop("userToken")),
        ("a security scheme with a field of its own", lambda t: parts(t)["securitySchemes"].update(
            {"paymentSignature": {"type": "apiKey", "in": "header", "name": "X-Seckill-Signature"}})),
        ("a reference to nothing", lambda t: parts(t)["schemas"].pop("Cents")),
        ("a header that is not there", lambda t: parts(t)["headers"].pop("RetryAfter")),
        ("an operation's name twice", lambda t: buy(t).update(operationId="getOrder")),
        ("an example that does not fit", lambda t: parts(t)["schemas"]["Order"]["properties"]["quantity"].update(minimum=2)),
        ("an example of a body that does not fit", lambda t: parts(t)["schemas"]["NewPayment"]["required"].append("x")),
        ("an example of a problem that does not fit", lambda t: parts(t)["examples"]["SOLD_OUT"]["value"].update(status=410)),
        ("an example of a parameter that does not fit", lambda t: parts(t)["parameters"]["limit"]["schema"].update(minimum=11)),
    ]
    for what, change in odd:
        yield what, changed(tree, change)


Change = tuple[str, dict, list[Exchange]]


def changed_documents(tree: dict, exchanges: list[Exchange]) -> Iterator[Change]:
    """Each is a valid document that contradicts one of the exchanges with it."""
    yield from without_what_was_seen(tree, exchanges)
    yield from other_members(tree, different(tree, exchanges))
    parts, buy = lambda t: t["components"], lambda t: t["paths"]["/seckill/{voucher}"]["post"]
    odd: list[tuple[str, Callable[[dict], object]]] = [
        ("a quantity that is taken is forbidden", lambda t: parts(t)["schemas"]["Purchase"]["properties"]["quantity"].update(minimum=2)),
        ("an unknown member is allowed", lambda t: parts(t)["schemas"]["NewVoucher"].update(additionalProperties=True)),
        ("a required member is optional", lambda t: parts(t)["schemas"]["NewPayment"]["required"].remove("reference")),
        ("an optional member is required", lambda t: parts(t)["schemas"]["Refund"].update(required=["restock"])),
        ("a purchase has no place", lambda t: parts(t)["responses"]["OrderPlaced"]["headers"].update(
            {"Retry-After": {"$ref": "#/components/headers/RetryAfter"}})),
        ("tags are of another form", lambda t: parts(t)["headers"]["ETag"]["schema"].update(pattern="^W/")),
        ("traces are of another form", lambda t: parts(t)["headers"]["Traceparent"]["schema"].update(pattern="^01-")),
        ("an answer is in no trace", lambda t: parts(t)["responses"]["OrderPlaced"]["headers"].pop("traceparent")),
        ("a problem is in no trace", lambda t: parts(t)["responses"]["UnknownVoucher"]["headers"].pop("traceparent")),
        ("caches may keep an answer", lambda t: parts(t)["headers"]["NoStore"].update(schema={"const": "no-cache"})),
        ("a field that pages do not see", lambda t: parts(t)["responses"]["Ok"]["headers"].update({"X-Odd": {"schema": {}}})),
        ("a field that pages may not send", lambda t: parts(t)["parameters"]["Prefer"].update(name="X-Odd")),
        ("a method that pages may not use", lambda t: t["paths"]["/orders"].update(delete=t["paths"]["/orders"].pop("get"))),
        ("reports are of another type", lambda t: parts(t)["responses"]["Settlement"]["content"].pop("text/csv; charset=utf-8; header=present")),
        ("the unchanged document has a body", lambda t: parts(t)["responses"]["Unchanged"].update(content={"text/plain": {"schema": {}}})),
        ("events are of another type", lambda t: parts(t)["responses"]["SaleEvents"].update(content={"text/plain": {"schema": {}}})),
    ]
    for what, change in odd:
        yield what, changed(tree, change), exchanges


def different(tree: dict, exchanges: list[Exchange]) -> list[Exchange]:
    """One of each combination of call, status and set of members."""
    document, found = Document(tree), {}
    for exchange in exchanges:
        operation = document.operation_of(exchange.method, exchange.target)
        members = frozenset(re.findall(rb'"(\w+)":', exchange.answer))
        found.setdefault((operation and operation.id, exchange.method, exchange.status, members), exchange)
    return list(found.values())


def without_what_was_seen(tree: dict, exchanges: list[Exchange]) -> Iterator[Change]:
    """Leaves out each status, and each code, that a call has returned."""
    document, seen = Document(tree), set()
    for exchange in exchanges:
        operation = document.operation_of(exchange.method, exchange.target)
        if operation is None:
            continue
        status, code, method = str(exchange.status), exchange.code(), operation.method.lower()
        if (operation.id, status) not in seen:
            seen.add((operation.id, status))
            yield f"{operation.id} without {status}", changed(
                tree, lambda t: t["paths"][operation.path][method]["responses"].pop(status)
            ), [exchange]
        if code and (operation.id, code) not in seen:
            seen.add((operation.id, code))

            def without(t: dict) -> None:
                response = Document(t).follow(t["paths"][operation.path][method]["responses"][status])
                own_codes(response["content"][PROBLEM]).remove(code)

            yield f"{operation.id} without {code}", changed(tree, without), [exchange]


def other_members(tree: dict, exchanges: list[Exchange]) -> Iterator[Change]:
    """Leaves out each member seen in an answer, or requires one that never comes."""
    text = b"".join(exchange.answer for exchange in exchanges).decode(errors="replace")
    sent = {"Purchase", "NewVoucher", "VoucherChange", "StockChange", "NewPayment", "Extension", "Refund"}
    sent |= {"PostedEvent"}  # by `seckill webhooks`, to others
    for name, schema in tree["components"]["schemas"].items():
        if name in sent or "properties" not in schema:
            continue
        for member in schema["properties"]:
            if f'"{member}"' not in text:
                continue

            def without(t: dict) -> None:
                one = t["components"]["schemas"][name]
                del one["properties"][member]

            if uses(tree, f"#/components/schemas/{name}/properties/{member}") == 0:
                yield f"{name} without {member}", changed(tree, without), exchanges
        yield f"{name} with one more", changed(
            tree, lambda t: t["components"]["schemas"][name].update(required=["never_there"])
        ), exchanges


def uses(value: object, reference: str) -> int:
    if isinstance(value, list):
        return sum(uses(one, reference) for one in value)
    if not isinstance(value, dict):
        return 0
    return (value.get("$ref") == reference) + sum(uses(one, reference) for one in value.values())
