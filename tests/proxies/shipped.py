"""What the shipped files of gateways must do beyond handing requests on: answer as the service does, let preflights pass,
do without an instance that is gone, and carry the real pages and the real client (pages.mjs) from another origin."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from checker import Findings
from roads import ORIGINS, Road, statistics, tried
from scenarios import expect, hurry, name_of, request, statuses, talk
from stack import ADMIN_TOKEN, Broken, wait_for
from wire import Answer

LOGIN = "https://login.test/in"
PAGES = Path(__file__).with_name("pages.mjs")
PAGES_S = 240.0
FAIL_TIMEOUT_S = 2  # of the nginx files: after it one request tries an instance that gave no answer
LATE = {"exp": int(time.time()) - 3600}


def of_page(origin: str) -> bytes:
    return f"Origin: {origin}\r\n".encode()


def must_be_problem(findings: Findings, road: Road, what: str, answer: Answer, status: set[int], code: str, origin: str) -> None:
    """With a CORS header for that origin, of which a page needs exactly its own."""
    expect(findings, road, f"{what}: the status", answer.status in status and answer.status, answer.status)
    try:
        problem = json.loads(answer.body)
    except ValueError:
        problem = {}
    found = (answer.fields.get("content-type"), problem.get("code"), problem.get("status"))
    expect(findings, road, f"{what}: the problem", found, ("application/problem+json", code, answer.status))
    if code == "UNAUTHENTICATED":
        expect(findings, road, f"{what}: WWW-Authenticate", answer.fields.get("www-authenticate") in ("Bearer", "Gateway"), True)
    if code in ("RATE_LIMITED", "UNAVAILABLE"):
        expect(findings, road, f"{what}: Retry-After", answer.fields.get("retry-after"), "1")
    listed = origin if origin in ORIGINS else None
    expect(findings, road, f"{what}: the origin that may read it", answer.fields.get("access-control-allow-origin"), listed)
    credentials = answer.fields.get("access-control-allow-credentials")
    expect(findings, road, f"{what}: credentials", credentials, "true" if listed else None)


def own_answers(road: Road, service, findings: Findings) -> None:
    """What a gateway answers itself is a problem of the service's, which pages of other origins can read."""
    late = "{}: {}\r\n".format(*road.login("late", **LATE)).encode()
    for origin in (*ORIGINS, "https://other.test"):
        who, page = road.who(f"{name_of(road)}-own"), of_page(origin)
        tried = [
            ("no such path", request("GET", "/nothing", b"", page), {404}, "NOT_FOUND"),
            ("a large body", request("POST", f"/seckill/{service.voucher}", who, page, b" " * 20000), {413}, "BODY_TOO_LARGE"),
        ]
        if road.gateway:
            tried += [
                ("a purchase after the login's end", request("POST", f"/seckill/{service.voucher}", late, page), {401}, "UNAUTHENTICATED"),
                ("orders after the login's end", request("GET", "/orders", late, page), {401}, "UNAUTHENTICATED"),
                ("a payment", request("POST", f"/orders/{service.others['ORDER']}/pay", who, page), {404}, "NOT_FOUND"),
                ("an extension", request("POST", f"/orders/{service.others['ORDER']}/extend", who, page), {404}, "NOT_FOUND"),
            ]
        for what, one, status, code in tried:
            must_be_problem(findings, road, what, talk(road.port, one)[0], status, code, origin)


def preflights(road: Road, service, findings: Findings) -> None:
    """A browser asks without a login whether a page of another origin may make a call."""
    document = json.loads(talk(road.port, request("GET", "/openapi.json", b""))[0].body)
    paths = [path for path in document["paths"] if not re.search("^/(admin|demo|metrics|healthz|readyz)|/(pay|extend|refund)$", path)]
    expect(findings, road, "routes of pages", len(paths) >= 8, True)
    for path in paths:
        target = re.sub("{[^}]*}", "1", path)
        for origin, allowed in ((ORIGINS[0], ORIGINS[0]), ("https://other.test", None)):
            fields = of_page(origin) + b"Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: idempotency-key\r\n"
            answer = talk(road.port, request("OPTIONS", target, b"", fields))[0]
            if allowed:
                expect(findings, road, f"a preflight of {path}", answer.status, 204)
            found = answer.fields.get("access-control-allow-origin")
            expect(findings, road, f"a preflight of {path} from {origin}", found, allowed)


def limit_is_told(road: Road, service, findings: Findings) -> None:
    answers = [answer for answer in hurry(road, of_page(ORIGINS[0])) if answer.status != 200]
    must_be_problem(findings, road, "a request too many", answers[0], {429}, "RATE_LIMITED", ORIGINS[0])


def sessions_away(road: Road, service, findings: Findings) -> None:
    road.by.sessions.close()
    one = request("GET", "/orders", road.who("alice"), of_page(ORIGINS[0]))
    answer = talk(road.port, one)[0]
    must_be_problem(findings, road, "no session service", answer, {503}, "UNAVAILABLE", ORIGINS[0])


# ---- an instance that is gone ----


def serves_without(road: Road, service, findings: Findings) -> None:
    """The second instance is gone: no buyer gets an error, and nginx tries it at most once in 2 s."""
    gone, ask = road.by.ports[1], request("GET", "/vouchers", b"")
    got: list[Answer] = []
    wait_for("a request to the instance that is gone", lambda: got.extend(talk(road.port, ask)) or tried(road, gone) > 0)
    before, began = tried(road, gone), time.monotonic()
    got += talk(road.port, *[ask] * 60)
    tries, most = tried(road, gone) - before, 2 + (time.monotonic() - began) / FAIL_TIMEOUT_S
    if tries > most:
        findings.add("scenario", f"{road.name}: 60 requests tried an instance that is gone {tries} times, not {most:.0f}")
    expect(findings, road, "without one instance", set(statuses(got)), {200})
    bought = talk(road.port, request("POST", f"/seckill/{service.voucher}", road.who(f"{name_of(road)}-without-{road.port}")))
    expect(findings, road, "a purchase without one instance", statuses(bought), [201])


def finds_gone(road: Road, service, findings: Findings) -> None:
    """The second instance is gone or not ready: HAProxy asks for /readyz, and then sends it nothing."""

    def tries() -> int:
        return sum(int(statistics(road, "seckill", "two")[name] or 0) for name in ("stot", "econ", "wretr", "wredis"))

    def is_down() -> bool:
        return statistics(road, "seckill", "two")["status"].startswith("DOWN")

    ask = request("GET", "/vouchers", b"")
    early = statuses(talk(road.port, *[ask] * 6))
    try:
        wait_for("HAProxy without its second instance", is_down, 10.0)
    except Broken as late:
        findings.add("scenario", f"{road.name}: {late}")
    before = tries()
    got = talk(road.port, *[ask] * 60, request("POST", f"/seckill/{service.voucher}", road.who(f"{name_of(road)}-without-{road.port}")))
    expect(findings, road, "tries of an instance that gets nothing", tries() - before, 0)
    expect(findings, road, "without one instance", (set(early + statuses(got[:-1])), got[-1].status), ({200}, 201))


# ---- the real pages and the real client ----


class Pages:
    """pages.mjs with a browser, for all these roads. Meanwhile it asks for the instances to die, and to come back."""

    def __init__(self, roads: list[Road], service, findings: Findings, shown_s: float = 30.0):
        self.roads, self.service, self.findings = roads, service, findings
        self.shown_s = shown_s  # in which a page shows what it must
        self.late = service.make(stock=100)  # sold while the instances come back

    def run(self) -> None:
        process = subprocess.Popen(["node", str(PAGES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        timer = threading.Timer(PAGES_S, process.kill)
        timer.start()
        try:
            self.tell(process, self.settings())
            for line in process.stdout:
                said = json.loads(line)
                if "found" in said:
                    self.findings.add("pages", said["found"])
                else:
                    {"die": self.die, "live": self.live}[said["ask"]]()
                    self.tell(process, {})
            if process.wait() != 0:
                self.findings.add("pages", f"pages.mjs ended with {process.returncode}")
        finally:
            timer.cancel()
            process.kill()
            process.wait()
            if not self.service.instance.alive():
                self.live()

    @staticmethod
    def tell(process: subprocess.Popen, what: dict) -> None:
        with suppress(BrokenPipeError):  # it has ended: its status is a finding
            process.stdin.write(json.dumps(what) + "\n")
            process.stdin.flush()

    def settings(self) -> dict:
        instances = [self.service.instance, self.service.by_token]
        sites = [{"origin": origin, "instance": f"http://127.0.0.1:{one.port}"} for origin, one in zip(ORIGINS, instances)]
        roads = [
            {
                "name": road.name,
                "url": f"http://127.0.0.1:{road.port}",
                "operators": f"http://127.0.0.1:{road.operators}",
                "origin": ORIGINS[road.tokens],
                "ended": login_of(road, "late", **LATE) if road.gateway else None,
                "client": login_of(road, f"{name_of(road)}-client"),
                "page": login_of(road, f"{name_of(road)}-page"),
            }
            for road in self.roads
        ]
        common = {"voucher": self.service.voucher, "late": self.late, "login": LOGIN, "admin": ADMIN_TOKEN, "shown_ms": self.shown_s * 1000}
        return common | {"sites": sites, "roads": roads}

    def die(self) -> None:
        for one in (self.service.instance, self.service.by_token):
            one.end(signal.SIGKILL)
        for road in self.roads:
            one = request("POST", f"/seckill/{self.late}", road.who(f"{name_of(road)}-away"), of_page(ORIGINS[1]))
            must_be_problem(self.findings, road, "no instance", talk(road.port, one)[0], {502, 503}, "UNAVAILABLE", ORIGINS[1])

    def live(self) -> None:
        for one in (self.service.instance, self.service.by_token):
            one.run()
            one.wait_ready()


def login_of(road: Road, user: str, **claims: object) -> dict:
    """How the client and a page show who the buyer is: the page by a cookie, by the token in its address, or by a header
    that its shop adds."""
    name, value = road.login(user, **claims)
    text = value.removeprefix("Bearer ")
    header = {} if road.cookie or road.tokens else {name: value}
    return {"client": {name: value}, "page": header, "cookie": text if road.cookie else None, "hash": text if road.tokens else None}
