"""The negative controls of shipped.py: gateways' files with one of their parts taken out, which must be noticed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from checker import Checker, Findings
from roads import Gateways, HangsUp, NotReady, Road, Unreachable
from rows import Row
from scenarios import hung_up_on
from shipped import Pages, finds_gone, limit_is_told, own_answers, preflights, serves_without, sessions_away

OPEN = {
    "nginx": lambda gateways: gateways.nginx(),
    "nginx, tokens": lambda gateways: gateways.nginx("tokens"),
    "compose": lambda gateways: gateways.compose(),
    "HAProxy": lambda gateways: gateways.haproxy(),
    "HAProxy, tokens": lambda gateways: gateways.haproxy("service"),
}
PATIENCE_S = 12.0  # most pages here never show what they must

# What is replaced.
PROBLEMS = {"        include nginx-problems.conf;\n": (2, "")}
LOGIN_OF_NGINX = {"error_page 401 ": "error_page 402 "}
LOGIN_OF_HAPROXY = {"http-error status 401": "http-error status 403"}
LIMIT_OF_NGINX = {"error_page 429 ": "error_page 402 "}
LIMIT_OF_HAPROXY = {"http-error status 429": "http-error status 403"}
CORS_OF_NGINX = {"add_header Access-Control-Allow-Origin      $origin": 'add_header Access-Control-Allow-Origin ""'}
CORS_FOR_ALL = {"add_header Access-Control-Allow-Origin      $origin": "add_header Access-Control-Allow-Origin $http_origin"}
CORS_OF_HAPROXY = {"set-header Access-Control-Allow-Origin %[var(txn.origin)]": "set-header Vary Origin"}
PREFLIGHTS_OF_NGINX = {"$request_method = OPTIONS": "$request_method = NONE"}
PREFLIGHTS_OF_HAPROXY = {" !METH_OPTIONS": (2, "")}
COUNTS = {"fail_timeout=2s;": (2, "max_fails=0;")}
SECOND_LINES = {" max_fails=0 backup;": (2, " down;")}
METRICS = {"location = /metrics {\n            proxy_pass http://seckill_operators;": "location = /metrics {\n            return 404;"}
HANDS_ON = {"tokens  $http_authorization;": 'tokens  "";'}
KEEPS_BACK = {"http-request del-header Cookie": "http-request del-header Authorization\n    http-request del-header Cookie"}


def refuses_a_row(road: Road, service, findings: Findings) -> None:
    row = Row("no such path", lambda ask: ask.head("GET", "/nothing"), (404,))
    Checker(road, service, findings).send(row)


@dataclass
class Control:
    name: str
    gateway: str
    broken: dict
    check: Callable | None  # None: the pages
    wanted: str  # a finding that it must lead to


CONTROLS = (
    Control("refusals as pages", "nginx", PROBLEMS, refuses_a_row, "not ours: .*: no such path: 404 text/html"),
    Control("nginx's 401 as a page", "nginx", LOGIN_OF_NGINX, own_answers, "orders after the login's end: the problem"),
    Control("HAProxy's 401 as a page", "HAProxy", LOGIN_OF_HAPROXY, own_answers, "orders after the login's end: the problem"),
    Control("nginx's 429 as a page", "nginx", LIMIT_OF_NGINX, limit_is_told, "a request too many: the problem"),
    Control("HAProxy's 429 as a page", "HAProxy", LIMIT_OF_HAPROXY, limit_is_told, "a request too many: the problem"),
    Control("no CORS of nginx", "nginx", CORS_OF_NGINX, own_answers, "the origin that may read it: None, not http"),
    Control("no CORS of HAProxy", "HAProxy", CORS_OF_HAPROXY, own_answers, "the origin that may read it: None, not http"),
    Control("CORS for all", "nginx", CORS_FOR_ALL, own_answers, "may read it: https://other.test, not None"),
    Control("preflights that need a session", "nginx", PREFLIGHTS_OF_NGINX, preflights, "a preflight of /seckill/.*: 401"),
    Control("preflights that need a token", "HAProxy", PREFLIGHTS_OF_HAPROXY, preflights, "a preflight of /seckill/.*: 401"),
    Control("500 without sessions", "nginx", {"error_page 500 =503": "error_page 402"}, sessions_away, "no session service: the status"),
    Control("nginx that counts nothing", "nginx", COUNTS, serves_without, r"an instance that is gone \d\d times"),
    Control("compose's that counts nothing", "compose", COUNTS, serves_without, r"an instance that is gone \d\d times"),
    Control("nginx without second lines", "nginx", SECOND_LINES, hung_up_on, "other purchases then: .*502"),
    Control("compose's without second lines", "compose", SECOND_LINES, hung_up_on, "other purchases then: .*502"),
    Control("HAProxy that asks nobody", "HAProxy", {"    option httpchk GET /readyz\n": ""}, finds_gone, "second instance: not within"),
    Control("the client gets a page", "nginx", LOGIN_OF_NGINX, None, "the client: a purchase after the login's end.*NOT_OURS"),
    Control("the page reads no 401", "nginx", CORS_OF_NGINX, None, "the page: the way to the login: not within"),
    Control("the page gets no preflight", "HAProxy", PREFLIGHTS_OF_HAPROXY, None, "the page: the way to the login: not within"),
    Control("nginx keeps tokens back", "nginx, tokens", HANDS_ON, None, "the client: a purchase: UNAUTHENTICATED"),
    Control("HAProxy keeps tokens back", "HAProxy, tokens", KEEPS_BACK, None, "the client: a purchase: UNAUTHENTICATED"),
    Control("502 as a page", "compose", {"        include nginx-problems.conf;\n": ""}, None, "why the client waits.*NOT_OURS"),
    Control("503 as a page", "HAProxy", {"http-error status 503": "http-error status 403"}, None, "no instance: the problem"),
    Control("no metrics for the dashboard", "compose", METRICS, None, "the dashboard: that all is well: not within"),
)


def controls(make: Callable[..., Gateways], service) -> list[str]:
    """Runs all, and returns what was not noticed. The pages see theirs at once, each under its own name."""
    pages, seen = [], Findings()
    stub, gone, unready = HangsUp(), Unreachable(), NotReady()
    second = {serves_without: gone.port, finds_gone: unready.port}
    for control in CONTROLS:
        instance = stub if control.check is hung_up_on else service.by_token if "tokens" in control.gateway else service.instance
        limited = control.check is limit_is_told
        gateways = make(instance, limited=limited, second=second.get(control.check, 0), broken=control.broken)
        road = OPEN[control.gateway](gateways)
        road.name = control.name
        if control.check is None:
            pages.append(road)
        else:
            control.check(road, service, seen)
    Pages(pages, service, seen, PATIENCE_S).run()
    for one in (stub, gone, unready):
        one.close()
    found = [f"{kind}: {one}" for kind, some in seen.found.items() for one in some]
    failed = []
    for control in CONTROLS:
        own = [one for one in found if f": {control.name}: " in one]
        if not any(re.search(control.wanted, one) for one in own):
            failed.append(f"{control.name}: not noticed: {control.wanted}; but {own[:3]}")
    return failed
