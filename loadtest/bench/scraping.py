"""What buyers lose to a Prometheus: their rate with and without reads of /metrics, far more frequent than its own."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import Iterator

from bench import bounds
from bench.bounds import BUYERS, Outcome
from lib.common import Failure
from lib.service import Service, Side, ask

EACH_S = 0.1  # a Prometheus reads every 15 s


@contextmanager
def scraper(service: Service) -> Iterator[list[int]]:
    """Reads the page until the end of the block; yields the length of each page, 0 for an incomplete one."""
    pages: list[int] = []
    ending = threading.Event()

    def read() -> None:
        headers = {"Authorization": f"Bearer {service.token}", "Accept": "application/openmetrics-text"}
        while not ending.wait(EACH_S):
            status, text = ask(f"{service.url}/metrics", "GET", headers)
            pages.append(len(text) if status == 200 and text.endswith("# EOF\n") else 0)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield pages
    finally:
        ending.set()
        thread.join()


def scraped(side: Side, seconds: int, flip: bool) -> Outcome:
    pages: list[int] = []

    def beside() -> bounds.Phase:
        with scraper(service) as read:
            time.sleep(bounds.LEAD_S)
            phase = bounds.buyers_beside(service, seconds, 0)
        pages.extend(read)
        return phase

    with side.serving() as service:
        scrapes, alone = bounds.in_turn(flip, beside, lambda: bounds.buyers_beside(service, seconds, 0))
    if alone.committed_rps == 0:
        raise Failure(f"{BUYERS} buyers get nothing")
    told = f"{scrapes.committed_rps:,.0f} orders/s beside {len(pages)} scrapes, {alone.committed_rps:,.0f} without"
    wrong = "" if pages and all(pages) else f"{pages.count(0)} of {len(pages)} scrapes failed"
    return Outcome(scrapes.committed_rps / alone.committed_rps, told, wrong, {"page_bytes": max(pages, default=0)})
