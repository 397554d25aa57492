"""The cost of pages: a page file and a 304 answer, compared with the ceiling; and what buyers lose to a thousand
open shop pages, and to operators' dashboards."""

from __future__ import annotations

import http.client
import itertools
import random
import threading
import time
from contextlib import contextmanager
from typing import Iterator

from bench import bounds
from bench.bounds import BUYERS, Outcome
from lib import common
from lib.common import Failure
from lib.service import Service, Side

FILE_BYTES = 1024
PAGES = {"index.html": "/", "admin.html": "/admin/ui"}  # other files have their path below /web/
FILES = (".html", ".css", ".js", ".svg")
OPEN = 1_000
POLL_S = 30  # how often a page whose stream runs requests the list (web/shop/live.js)
DASHBOARDS = 10
ROUND_S = 6  # how many calls of each kind a dashboard makes in this time (web/admin/board.js, vouchers.js)
DASHBOARD = {
    "/metrics": 6,
    "/admin/vouchers?limit=20": 6,
    "/admin/vouchers/{}": 24,
    "/admin/vouchers/{}/dead-letters?limit=50": 2,
    "/admin/vouchers/{}/settlement": 1,
    "/admin/instances": 6,
    "/admin/troubles": 1,
    "/admin/events?last=60": 3,
}


# ---- files ----


def page_file(side: Side, seconds: int, flip: bool) -> Outcome:
    return against_ceiling(side, seconds, flip, unchanged=False)


def page_unchanged(side: Side, seconds: int, flip: bool) -> Outcome:
    return against_ceiling(side, seconds, flip, unchanged=True)


def against_ceiling(side: Side, seconds: int, flip: bool, unchanged: bool) -> Outcome:
    """The same requests to the service, and to its own server answering a constant."""
    path = page_of_about(FILE_BYTES)
    with side.serving() as service, bounds.parking_server(side) as ceiling:
        size, tag = fetch(service.url, path, 200, {})
        fields = side.folder / "page-fields"
        fields.write_text(f"If-None-Match: {tag if unchanged else 0}\n")
        if unchanged:
            fetch(service.url, path, 304, {"If-None-Match": tag})

        def crowd(url: str) -> common.Load:
            return common.run_wrk([url], BUYERS, 1, seconds, path=path, method="GET", fields=fields)

        ours, constant = bounds.in_turn(flip, lambda: crowd(service.url), lambda: crowd(ceiling.url))
    what = "304" if unchanged else f"{path}, {size:,} bytes"
    told = f"{ours.rate:,.0f} answers/s of {what}, {constant.rate:,.0f} of a constant"
    broken = ours.not_ok + sum(ours.broken.values())
    wrong = f"{broken:,} of {ours.requests:,} requests failed" if broken else ""
    return Outcome(ours.rate / constant.rate, told, wrong, {"rps": ours.rate, "ceiling_rps": constant.rate})


def page_of_about(size: int) -> str:
    """The path of the file of web/ with the nearest size."""
    web = common.ROOT / "web"
    files = [file for file in web.rglob("*") if file.suffix in FILES and file.name != "pay.html"]
    nearest = min(files, key=lambda file: abs(file.stat().st_size - size), default=None)
    if nearest is None:
        raise Failure(f"there is no page in {web}")
    inside = str(nearest.relative_to(web))
    return PAGES.get(inside, f"/web/{inside}")


def fetch(url: str, path: str, status: int, headers: dict[str, str]) -> tuple[int, str]:
    """Sends one request; returns the body's size and the ETag."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        size = len(answer.read())
        if answer.status != status:
            raise Failure(f"{url}{path} answered {answer.status}, not {status}")
        return size, answer.getheader("ETag", "")
    finally:
        connection.close()


# ---- open pages ----


def open_pages(side: Side, seconds: int, flip: bool) -> Outcome:
    """Each page listens to the voucher that the buyers buy, and requests the list now and then."""
    with side.serving() as service:
        pages, none = bounds.in_turn(
            flip, lambda: buyers_beside_pages(service, seconds, OPEN), lambda: buyers_beside_pages(service, seconds, 0)
        )
    if none.committed_rps == 0:
        raise Failure("buyers get nothing beside no page")
    told = (
        f"{pages.committed_rps:,.0f} orders/s beside {OPEN:,} pages ({pages.heard.events_per_s:,.0f} events/s, "
        f"{pages.heard.cpu_share:.0%} of a CPU to read them), {none.committed_rps:,.0f} beside none"
    )
    wrong = "" if pages.heard.ended == 0 else f"{pages.heard.ended:,} streams ended"
    details = {"pages": pages.details, "none": none.details}
    return Outcome(pages.committed_rps / none.committed_rps, told, wrong, details)


def buyers_beside_pages(service: Service, seconds: int, pages: int) -> bounds.Listened:
    voucher = service.voucher()
    streams = [(f"/vouchers/{voucher.id}/events!", "")] * pages
    with polling(service, ["/vouchers"], pages / POLL_S):
        return bounds.buyers_beside_listeners(service, voucher, seconds, service.url, streams)


@contextmanager
def polling(service: Service, paths: list[str], rate: float, headers: dict[str, str] | None = None) -> Iterator[None]:
    """Makes `rate` calls a second, of these paths in turn, until the end of the block."""
    ending = threading.Event()
    failures: list[str] = []

    def poll() -> None:
        connection = http.client.HTTPConnection(service.url.removeprefix("http://"), timeout=10)
        due, path = time.monotonic(), ""
        try:
            for path in itertools.cycle(paths):
                if ending.wait(max(0.0, due - time.monotonic())):
                    return
                due += 1 / rate
                connection.request("GET", path, headers=headers or {})
                answer = connection.getresponse()
                answer.read()
                if answer.status != 200:
                    failures.append(f"GET {path} answered {answer.status}")
        except OSError as error:
            failures.append(f"GET {path}: {error}")
        finally:
            connection.close()

    thread = threading.Thread(target=poll, daemon=True)
    if rate > 0:
        thread.start()
    try:
        yield
    finally:
        ending.set()
        if rate > 0:
            thread.join()
    if failures:
        raise Failure(failures[0])


# ---- dashboards ----


def dashboards(side: Side, seconds: int, flip: bool) -> Outcome:
    """Each dashboard makes as many calls as one ever does, about a voucher that a crowd has bought."""
    with side.serving() as service:
        voucher = bounds.everybody_buys(service, BUYERS)
        calls = [path.format(voucher.id) for path, times in DASHBOARD.items() for _ in range(times)]
        random.Random(1).shuffle(calls)  # as from pages that were opened at different times
        rate = DASHBOARDS * len(calls) / ROUND_S

        def beside() -> bounds.Phase:
            with polling(service, calls, rate, {"Authorization": f"Bearer {service.token}"}):
                return bounds.buyers_beside(service, seconds, 0)

        watched, alone = bounds.in_turn(flip, beside, lambda: bounds.buyers_beside(service, seconds, 0))
    if alone.committed_rps == 0:
        raise Failure("buyers get nothing beside no dashboard")
    told = (
        f"{watched.committed_rps:,.0f} orders/s beside {DASHBOARDS} dashboards ({rate:.0f} calls/s), "
        f"{alone.committed_rps:,.0f} beside none"
    )
    return Outcome(watched.committed_rps / alone.committed_rps, told)
