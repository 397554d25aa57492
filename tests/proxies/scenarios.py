"""Rows of the input table that are more than one request."""

from __future__ import annotations

import json
import signal

from checker import Findings
from roads import Road
from stack import PAYMENTS_TOKEN, wait_for
from wire import Answer, Link


def request(method: str, target: str, who: bytes, fields: bytes = b"", body: bytes = b"") -> bytes:
    kind = b"Content-Type: application/json\r\n" if body else b""
    head = f"{method} {target} HTTP/1.1\r\nHost: test\r\n".encode() + who + fields + kind
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def talk(port: int, *requests: bytes, pipelined: bool = False) -> list[Answer]:
    """All on one connection."""
    link, found = Link(port), []
    try:
        if pipelined:
            link.send(b"".join(requests))
        for one in requests:
            if not pipelined:
                link.send(one)
            answer = link.one()
            if answer is None:
                break
            found.append(answer)
    finally:
        link.close()
    return found


def statuses(answers: list[Answer]) -> list[int]:
    return [answer.status for answer in answers]


def expect(findings: Findings, road: Road, what: str, got: object, wanted: object) -> None:
    if got != wanted:
        findings.add("scenario", f"{road.name}: {what}: {got}, not {wanted}")


def name_of(road: Road) -> str:
    return "".join(c for c in road.name.lower() if c.isalnum())


def keys(road: Road, service, findings: Findings) -> None:
    """The first answer again; for another quantity 422."""
    who = road.who(f"{name_of(road)}-keys")
    key = b"Idempotency-Key: k-1\r\n"
    one = request("POST", f"/seckill/{service.voucher}", who, key)
    two = request("POST", f"/seckill/{service.voucher}", who, key, b'{"quantity":2}')
    answers = talk(road.port, one, one, two)
    expect(findings, road, "one key", statuses(answers), [201, 201, 422])
    expect(findings, road, "the order of a key", len({json.loads(a.body)["id"] for a in answers[:2]}), 1)


def repeated(road: Road, service, findings: Findings) -> None:
    who = road.who(f"{name_of(road)}-repeats")
    one = request("POST", f"/seckill/{service.voucher}", who)
    answers = talk(road.port, one, one, one, pipelined=True)
    expect(findings, road, "a winner repeats", statuses(answers), [201, 409, 409])
    order = json.loads(answers[0].body)["id"]
    expect(findings, road, "the winner's order", {json.loads(a.body).get("order_id") for a in answers[1:]}, {order})


def payments(road: Road, service, findings: Findings) -> None:
    user = f"{name_of(road)}-pays"
    placed = talk(road.port, request("POST", f"/seckill/{service.voucher}", road.who(user)))[0]
    order = json.loads(placed.body)["id"]
    token = f"Authorization: Bearer {PAYMENTS_TOKEN}\r\n".encode()

    def pay(reference: str) -> bytes:
        body = json.dumps({"reference": f"{name_of(road)}-{reference}", "amount_cents": 990, "currency": "CNY"}).encode()
        return request("POST", f"/orders/{order}/pay", token, body=body)

    expect(findings, road, "payments", statuses(talk(road.operators, pay("1"), pay("1"), pay("2"))), [200, 200, 409])
    cancel = talk(road.port, request("POST", f"/orders/{order}/cancel", road.who(user)))[0]
    expect(findings, road, "a paid order is cancelled", (cancel.status, json.loads(cancel.body).get("state")), (409, "paid"))


def cursors(road: Road, service, findings: Findings) -> None:
    """Of another list, and of another user."""
    first = talk(road.port, request("GET", "/vouchers?limit=1", b""))[0]
    cursor = json.loads(first.body)["next"]
    expect(findings, road, "the link to the next page", f"cursor={cursor}" in first.fields.get("link", ""), True)
    who = road.who(f"{name_of(road)}-keys")
    other = talk(road.port, request("GET", f"/orders?cursor={cursor}", who), request("GET", f"/vouchers?cursor={cursor}", b""))
    expect(findings, road, "a cursor of another list", statuses(other), [422, 200])


def roles(road: Road, service, findings: Findings) -> None:
    """A token of another role; a token of a user, where one of the service's own is due."""
    payment = f"Authorization: Bearer {PAYMENTS_TOKEN}\r\n".encode()
    answers = talk(road.operators, request("GET", "/admin/vouchers", payment), request("GET", "/admin/vouchers", road.who("alice")))
    expect(findings, road, "roles", statuses(answers), [403, 401])


def over_the_rate(road: Road, service, findings: Findings) -> None:
    one = request("POST", f"/seckill/{service.others['SOLD_OUT']}", road.who(f"{name_of(road)}-hurries"))
    for _ in range(5):  # on a slow machine a second may pass between them
        answers = talk(road.port, *[one] * 60, pipelined=True)
        limited = [answer for answer in answers if answer.status == 429]
        if limited:
            break
    expect(findings, road, "over the rate", set(statuses(answers)) - {409, 429}, set())
    expect(findings, road, "over the rate, with Retry-After", bool(limited) and "retry-after" in limited[0].fields, True)


def pipelined(road: Road, service, findings: Findings) -> None:
    """Each gets its own answer, in their order."""
    users = [f"{name_of(road)}-line-{n}" for n in range(20)]
    answers = talk(road.port, *[request("POST", f"/seckill/{service.voucher}", road.who(user)) for user in users], pipelined=True)
    expect(findings, road, "pipelined", [json.loads(answer.body).get("user_id") for answer in answers], users)


SCENARIOS = (keys, repeated, payments, cursors, roles, over_the_rate, pipelined)


def stores_away(roads: list[Road], service, findings: Findings) -> None:
    """503 with Retry-After, from the service itself, also through a gateway; and it is there again afterwards."""
    service.stack.redis.end(signal.SIGKILL)
    for road in roads:
        one = request("POST", f"/seckill/{service.voucher}", road.who(f"{name_of(road)}-late"))
        last: list[Answer] = []

        def away() -> bool:
            last[:] = talk(road.port, one)
            return statuses(last) == [503]

        wait_for(f"503 on the road {road.name}", away)
        expect(findings, road, "503 with Retry-After", "retry-after" in last[0].fields, True)
        expect(findings, road, "503 is the service's", last[0].fields.get("content-type"), "application/problem+json")
    service.stack.redis.run(*service.stack.redis_settings)
    for road in roads:
        one = request("POST", f"/seckill/{service.voucher}", road.who(f"{name_of(road)}-late"))
        wait_for(f"the sale on the road {road.name}", lambda: statuses(talk(road.port, one)) in ([201], [409]))
