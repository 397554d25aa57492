"""Rows of the input table with more than one request."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

from checker import Findings
from roads import IN_HAPROXY, ROOT, Road, starts_haproxy
from stack import PAYMENTS_TOKEN, wait_for
from user_tokens import AUDIENCE, bad_tokens, token
from wire import Answer, Link

HEALTH_CHECKS_S = 6.0  # in which a gateway would take out an instance that is not ready
EVENT_S = 3.0  # until an event arrives, at most; a gateway that buffers delays it by 15 s
# Tokens that only the login's key set or a strict parser can judge. The login has signed all of these except the 6 KB.
NOT_SEEN = {"no kid", "a wrong kid", "crit", "duplicate sub", "duplicate alg", "exp a string", "nbf a string", "a number for a sub", "6 KB"}


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
    """The first answer again; 422 for another quantity."""
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

    expect(findings, road, "payments", statuses(talk(road.payments, pay("1"), pay("1"), pay("2"))), [200, 200, 409])
    cancel = talk(road.port, request("POST", f"/orders/{order}/cancel", road.who(user)))[0]
    expect(findings, road, "a paid order is cancelled", (cancel.status, json.loads(cancel.body).get("state")), (409, "paid"))


def cursors(road: Road, service, findings: Findings) -> None:
    """Cursors of another list, and of another user."""
    first = talk(road.port, request("GET", "/vouchers?limit=1", b""))[0]
    cursor = json.loads(first.body)["next"]
    expect(findings, road, "the link to the next page", f"cursor={cursor}" in first.fields.get("link", ""), True)
    who = road.who(f"{name_of(road)}-keys")
    other = talk(road.port, request("GET", f"/orders?cursor={cursor}", who), request("GET", f"/vouchers?cursor={cursor}", b""))
    expect(findings, road, "a cursor of another list", statuses(other), [422, 200])


def roles(road: Road, service, findings: Findings) -> None:
    """A token of another role; a user's token where one of the service's own is required."""
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
    """Each request gets its own answer, in order."""
    users = [f"{name_of(road)}-line-{n}" for n in range(20)]
    answers = talk(road.port, *[request("POST", f"/seckill/{service.voucher}", road.who(user)) for user in users], pipelined=True)
    expect(findings, road, "pipelined", [json.loads(answer.body).get("user_id") for answer in answers], users)


def tickets(road: Road, service, findings: Findings) -> None:
    """For the user identified by the gateway."""
    user, voucher = f"{name_of(road)}-ticket", service.others["TICKET"]
    path = f"/vouchers/{voucher}/ticket"
    answers = talk(road.port, request("GET", path, road.who(user)), request("POST", path, road.who(user)), request("POST", path, b""))
    expect(findings, road, "tickets", statuses(answers)[1:], [200, 401])
    ticket = f"X-Seckill-Ticket: {json.loads(answers[1].body)['ticket']}\r\n".encode()
    bought = talk(road.port, request("POST", f"/seckill/{voucher}", road.who(user), ticket))
    expect(findings, road, "a purchase with a ticket", statuses(bought), [201])


def traces(road: Road, service, findings: Findings) -> None:
    """The service answers with the trace that it received: a gateway must not forward a client's."""
    sent = b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
    answer = talk(road.port, request("GET", "/vouchers", b"", sent))[0]
    expect(findings, road, "a client's trace", "traceparent" in answer.fields, not road.gateway)


def origins(road: Road, service, findings: Findings) -> None:
    """Origin is compared with Host as the client wrote it, including its port."""
    for number, (origin, status) in enumerate((("https://shop.test:8443", 201), ("https://shop.test", 403), ("https://other.test:8443", 403))):
        who = road.who(f"{name_of(road)}-page-{number}")
        one = request("POST", f"/seckill/{service.voucher}", who, f"Origin: {origin}\r\n".encode())
        got = statuses(talk(road.port, one.replace(b"Host: test\r\n", b"Host: shop.test:8443\r\n")))
        expect(findings, road, f"a page of {origin} at shop.test:8443", got, [status])


def streams_of(voucher: str) -> tuple[str, str]:
    return f"/vouchers/{voucher}/events", f"/vouchers/events?ids={voucher}"


def lasting(road: Road, service, findings: Findings) -> None:
    """A stream's events arrive as they are sent, and a long poll lasts its full time."""
    for number, path in enumerate(streams_of(service.voucher)):
        stream = Link(road.port)
        stream.send(request("GET", path, b""))
        first = stream.head_and(b"data: ", EVENT_S)
        expect(findings, road, f"the first event of {path}", b"data: " in first, True)
        seen = len(first)
        talk(road.port, request("POST", f"/seckill/{service.voucher}", road.who(f"{name_of(road)}-heard-{number}")))
        later = stream.head_and(b"nothing of an event", EVENT_S)[seen:]
        expect(findings, road, f"the next event of {path}", b"data: " in later, True)
        stream.close()
    who = road.who(f"{name_of(road)}-waits")
    order = json.loads(talk(road.port, request("POST", f"/seckill/{service.voucher}", who))[0].body)["id"]
    answers = talk(road.port, request("GET", f"/orders/{order}?wait=3&while=unpaid", who))
    expect(findings, road, "a long poll", statuses(answers), [200])


SCENARIOS = (keys, repeated, payments, cursors, roles, over_the_rate, pipelined, tickets, traces, origins, lasting)


# ---- single gateways ----


def wrong_tokens(road: Road, service, findings: Findings) -> None:
    """A gateway that checks tokens itself accepts only those that a login has made for this shop."""
    user = f"{name_of(road)}-odd"
    buy = lambda text: request("POST", f"/seckill/{service.voucher}", f"Authorization: Bearer {text}\r\n".encode())
    for name, text in bad_tokens(user).items():
        if name in NOT_SEEN:
            continue
        got = statuses(talk(road.port, buy(text)))
        expect(findings, road, f"a token: {name}", got, [401])
    for claims in ({}, {"aud": ["other", AUDIENCE]}, {"nbf": int(time.time()) - 60}):
        got = statuses(talk(road.port, buy(token(f"{user}-{len(claims)}{'nbf' in claims}", **claims))))
        expect(findings, road, f"a good token with {claims}", got, [201])


def waits_are_cut_off(road: Road, service, findings: Findings) -> None:
    """More long polls than allowed failures, all longer than the gateway's time-out: only they get 504."""
    who = road.who(f"{name_of(road)}-cut")
    order = json.loads(talk(road.port, request("POST", f"/seckill/{service.voucher}", who))[0].body)["id"]
    talk(road.port, request("GET", f"/orders/{order}?wait=1&while=pending", who))  # few look-ups of a pending one are let in
    links = [Link(road.port, 30) for _ in range(6)]
    for link in links:
        link.send(request("GET", f"/orders/{order}?wait=20&while=unpaid", who))
    found = [link.one() for link in links]
    odd = [(answer.status, answer.body) if answer else None for answer in found if not answer or answer.status != 504]
    expect(findings, road, "long polls that are cut off", odd, [])
    others = statuses(talk(road.port, *[request("GET", "/vouchers", b"")] * 20))
    expect(findings, road, "requests beside them", others, [200] * 20)
    for link in links:
        link.close()


def hurry(road: Road, fields: bytes = b"") -> list[Answer]:
    """The answers to more requests at once than a gateway allows an address."""
    for _ in range(5):  # on a slow machine they may arrive slowly enough
        answers = talk(road.port, *[request("GET", "/vouchers", b"", fields)] * 800, pipelined=True)
        if 429 in statuses(answers):
            break
    return answers


def exceed(road: Road, service, findings: Findings) -> None:
    """An address that takes too much is refused; others are served meanwhile, and it can still buy."""

    def held(count: int, data: bytes, address: str = "127.0.0.1") -> list[Link]:
        """Connections that were not closed."""
        links = []
        for _ in range(count):
            try:
                links.append(Link(road.port, address=address))
                links[-1].send(data)
            except OSError:
                pass
        time.sleep(1.0)  # time for answers to arrive
        return links

    def refused(links: list[Link], of: int) -> int:
        heads = [(link, link.head_and(b" 429 ", 0.01)) for link in links]
        return of - len(links) + sum(head.startswith(b"HTTP/1.1 429 ") or link.ended for link, head in heads)

    def others_are_served(what: str) -> None:
        other = Link(road.port, address="127.0.0.2")
        other.send(request("GET", "/vouchers", b""))
        answer = other.one()
        expect(findings, road, f"another address beside {what}", answer and answer.status, 200)
        other.close()

    def release(links: list[Link]) -> None:
        for link in links:
            link.close()
        time.sleep(1.5)  # until the rate has recovered

    streams = [link for path in streams_of(service.voucher) for link in held(20, request("GET", path, b""))]
    expect(findings, road, "40 streams, refused", refused(streams, 40), 8)
    others_are_served("40 streams")
    bought = talk(road.port, request("POST", f"/seckill/{service.voucher}", road.who(f"{name_of(road)}-beside")))
    expect(findings, road, "a purchase beside 40 streams", statuses(bought), [201])
    release(streams)
    begun = held(150, request("POST", f"/seckill/{service.voucher}", road.who("slow"), b"X: y\r\n", b" " * 9)[:-5])
    expect(findings, road, "150 requests under way, refused", refused(begun, 150) >= 22, True)
    others_are_served("150 requests")
    release(begun)
    polls = []
    for who in (road.who(f"{name_of(road)}-polls-{number}") for number in range(5)):  # the service allows each user 8
        order = json.loads(talk(road.port, request("POST", f"/seckill/{service.voucher}", who))[0].body)["id"]
        polls += held(8, request("GET", f"/orders/{order}?%77ait=20&while=unpaid", who), "127.0.0.3")
    expect(findings, road, "40 long polls, refused", refused(polls, 40), 8)
    others_are_served("40 long polls")
    release(polls)
    expect(findings, road, "800 requests at once", set(statuses(hurry(road))), {200, 429})
    others_are_served("800 requests")


def hung_up_on(road: Road, service, findings: Findings) -> None:
    """One client's failures do not take the instances from the others."""
    buy = lambda voucher: request("POST", f"/seckill/{voucher}", road.who("alice"))
    cut = statuses([answer for _ in range(4) for answer in talk(road.port, buy(0))])
    expect(findings, road, "purchases that the instance hangs up on", set(cut), {502})
    others = statuses([answer for _ in range(20) for answer in talk(road.port, buy(1))])
    expect(findings, road, "other purchases then", set(others), {200})


def secret_of_haproxy(folder: Path, findings: Findings) -> None:
    """HAProxy does not start without its key, if it is to check tokens. The control: without our check it does, and an
    empty key signs tokens."""
    text = (ROOT / "deploy" / "haproxy.cfg").read_text()
    begin = text.index('.if streq("$SECRET","")')
    ours = text[begin : text.index(".endif", begin) + len(".endif")]
    environments = ({}, {"SECRET": ""}, {"TOKENS": "nobody"}, IN_HAPROXY, {"TOKENS": "service"})
    tried = [starts_haproxy(folder, env) for env in environments]
    if tried != [False, False, False, True, True]:
        findings.add("scenario", f"HAProxy starts without a key, with an empty one, with nobody to check, with a key, with the service: {tried}")
    if not starts_haproxy(folder, {}, ours):
        findings.add("scenario", "the control: HAProxy itself refuses to start without a key")


def redis_away(roads: list[Road], service, findings: Findings) -> None:
    """503 with Retry-After, from the service itself, also through a gateway; and it recovers afterwards."""
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


def postgresql_away(roads: list[Road], service, findings: Findings) -> None:
    """202, also behind a gateway that has asked for readiness meanwhile; 201 once it is back."""
    service.stack.postgres.end(signal.SIGQUIT)
    time.sleep(HEALTH_CHECKS_S)
    buy = lambda road, who: request("POST", f"/seckill/{service.voucher}", road.who(f"{name_of(road)}-{who}"))
    for road in roads:
        expect(findings, road, "without PostgreSQL", statuses(talk(road.port, buy(road, "unconfirmed"))), [202])
    service.stack.postgres.run()
    for road in roads:
        once = lambda road=road: statuses(talk(road.port, buy(road, f"back-{time.time_ns()}")))
        wait_for(f"201 on the road {road.name}", lambda once=once: once() == [201])
