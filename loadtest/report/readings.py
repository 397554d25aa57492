"""The service's own figures at one moment: the few /metrics counters that the charts use, from each instance, and
the voucher's units left in both stores."""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.parse
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from lib.common import Failure, Voucher

READ_S = 2
PURCHASES = 'method="POST",route="/seckill/{voucher}"'
ANSWERS = "seckill_http_requests_total{" + PURCHASES
WAITS = "seckill_http_request_duration_seconds_bucket{" + PURCHASES
DURABLE = "seckill_order_durable_seconds_bucket{"
COMMITTED = "seckill_orders_placed_total"
STARTED = "process_start_time_seconds"
BUILD = "seckill_build_info{"
SERIES_MAX = 4096  # whose keys are cached: the pages of a rush repeat the same ones

# By an answer's code; every other code is `other`. The names are those of oversell.lua.
KINDS = {
    "PLACED": "placed",
    "ACCEPTED": "accepted",
    "SOLD_OUT": "sold_out",
    "ALREADY_ORDERED": "already_ordered",
    "RATE_LIMITED": "limited",
}
OTHER = "other"
SHOWN = {
    "placed": "won (201)",
    "accepted": "accepted (202)",
    "sold_out": "sold out",
    "already_ordered": "already ordered",
    "limited": "limited",
    "other": "other",
}

# (series, label) -> count. Series: answers by kind; waits and durable by the end of their bucket in ms, each including
# all shorter ones; committed by "".
Counts = Counter


@dataclass(frozen=True)
class Page:
    """The page of one instance."""

    started: str  # start time: it counts from then on
    version: str
    counts: Counts


@dataclass(frozen=True)
class Reading:
    at: float  # by time.monotonic()
    pages: list[Page | None]  # by instance; None: it did not answer
    in_redis: int | None  # units left; None: unknown
    in_postgres: int | None


def page_of(text: str) -> Page:
    counts, started, version = Counts(), "", ""
    for line in text.splitlines():
        series, _, value = line.rpartition(" ")
        if key := key_of(series):
            counts[key] += int(value)
        elif series == STARTED:
            started = value
        elif series.startswith(BUILD):
            version = series.split('"')[1]
    return Page(started, version, counts)


@lru_cache(SERIES_MAX)
def key_of(series: str) -> tuple[str, str | float] | None:
    """The key of a series that is counted here; None: another series."""
    if series.startswith(ANSWERS):
        code = re.search(r'code="(\w+)"', series)
        return "answers", KINDS.get(code[1] if code else "", OTHER)
    if series.startswith(WAITS):
        return "waits", bucket_end_ms(series)
    if series.startswith(DURABLE):
        return "durable", bucket_end_ms(series)
    return ("committed", "") if series == COMMITTED else None


def bucket_end_ms(series: str) -> float:
    return float(re.search(r'le="([^"]+)"', series)[1]) * 1000


class Reader:
    """Sends requests over its own connections, which stay open. One thread."""

    def __init__(self, urls: list[str], token: str, voucher: Voucher):
        hosts = [urllib.parse.urlsplit(url).netloc for url in urls]
        self.voucher_path = f"/admin/vouchers/{voucher.id}"
        self.headers = {"Authorization": f"Bearer {token}"}
        self.instances = [http.client.HTTPConnection(host, timeout=READ_S) for host in hosts]
        self.beside = http.client.HTTPConnection(hosts[0], timeout=READ_S)

    def read(self) -> Reading:
        """Sends all requests before it reads the first answer, so that the answers are of the same moment."""
        asked = [self.ask(one, "/metrics") for one in self.instances]
        asked_voucher = self.ask(self.beside, self.voucher_path)
        pages = [self.answer(one) if is_asked else None for one, is_asked in zip(self.instances, asked)]
        voucher = json.loads(self.answer(self.beside) or "{}") if asked_voucher else {}
        return Reading(
            time.monotonic(),
            [page_of(page) if page else None for page in pages],
            voucher.get("redis", {}).get("stock"),
            voucher.get("remaining"),
        )

    def first(self) -> Reading:
        """The reading against which all others are compared, so it must be complete."""
        reading = self.read()
        if not all(page and page.started and page.counts for page in reading.pages) or reading.in_redis is None:
            raise Failure(
                "an instance does not show its /metrics, or the voucher, to the admin token; name the instances "
                "themselves with --url: a gateway keeps these pages to itself"
            )
        return reading

    def ask(self, connection: http.client.HTTPConnection, path: str) -> bool:
        try:
            connection.request("GET", path, headers=self.headers)
            return True
        except (OSError, http.client.HTTPException):
            connection.close()  # the next request opens it again
            return False

    def answer(self, connection: http.client.HTTPConnection) -> str | None:
        try:
            response = connection.getresponse()
            text = response.read().decode()
            return text if response.status == 200 else None
        except (OSError, http.client.HTTPException):
            connection.close()
            return None

    def close(self) -> None:
        for connection in chain(self.instances, [self.beside]):
            connection.close()


def percentile(counts: Counts, series: str, share: float) -> float | None:
    """In ms, of the values between two readings. Values are assumed to be spread evenly within a bucket, which is as
    wide as all before it. None: there are no values."""
    buckets = sorted((end, count) for (name, end), count in counts.items() if name == series)
    total = buckets[-1][1] if buckets else 0
    begin = below = 0.0
    for end, upto in buckets:
        if total and upto >= share * total:
            return begin if end == float("inf") else begin + (end - begin) * (share * total - below) / (upto - below)
        begin, below = end, upto
    return None
