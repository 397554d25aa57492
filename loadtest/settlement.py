"""Requests the service's own settlement report of a voucher from each instance, and compares it with an outside count.

A report names its instance, because a gateway may send each request to another one. Times to durable are in an instance's
memory alone. So the instances are asked before the rush, too: the times of one that has ended since are missing, and that is
no fault.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from typing import Callable

from lib import common

ASK_S = 60
GONE_S = 5  # an address at which no instance has answered for so long has none
HTTP_WAIT_S = {502: GONE_S, 503: ASK_S, 504: GONE_S}  # a gateway's, and the service's own
PAUSE_S = 0.1
IN_VAIN_MAX = 30  # requests in a row that reached no new instance: there is none
STATUSES = ("unpaid", "paid", "cancelled", "expired", "refused")
MAY_BE_MISSING = {"SALE_ON": "the sale is on", "UNPAID": "orders may still be paid"}  # right after a rush
WITHOUT_REDIS = "REDIS"  # what is missing in the report of an instance that cannot read Redis
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}


@dataclass(frozen=True)
class Counted:
    """An outside count."""

    units: int
    stock: int
    orders: Counter[str]  # by status
    live_units: int
    redis_stock: int | None
    buyers: int
    placed: int  # orders that were answered with 201
    placed_at: dict[str, int] = field(default_factory=dict)  # by each instance that has an address of its own
    gone: frozenset[str] = frozenset()  # instances that ended in the rush, with the times that they had measured


class Away(common.Failure):
    """No instance reports at this address."""


@dataclass(frozen=True)
class Heard:
    """What the instances behind some addresses have reported."""

    reports: dict[str, dict] = field(default_factory=dict)  # by instance
    behind: dict[str, set[str]] = field(default_factory=dict)  # the instances that answered at each address
    away: dict[str, str] = field(default_factory=dict)  # addresses at which no instance reports, and why


def ask(url: str, token: str, voucher: str) -> dict:
    """One instance's report, as JSON. Waits for its turn while another report is being counted, and for an instance
    that is being restarted."""
    request = urllib.request.Request(
        f"{url}/admin/vouchers/{voucher}/settlement", headers={"Authorization": f"Bearer {token}"}
    )
    begin = time.monotonic()
    while True:
        try:
            with urllib.request.urlopen(request, timeout=ASK_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            why, most_s = f"{error.code}: {error.read().decode(errors='replace')}", HTTP_WAIT_S.get(error.code)
            if most_s is None:
                raise common.Failure(f"{request.full_url} answered {why}") from error
        except (OSError, http.client.HTTPException) as error:
            why, most_s = str(error), GONE_S
        if time.monotonic() > begin + most_s:
            raise Away(why)
        time.sleep(PAUSE_S)


def hear(
    urls: list[str], token: str, voucher: str, enough: Callable[[str, Heard], bool] = lambda url, heard: False
) -> Heard:
    """A report from each instance behind these addresses: each address is asked until there is `enough`, or no new
    instance appears."""
    heard = Heard(behind={url: set() for url in urls})
    for url in heard.behind:
        in_vain = 0
        while in_vain < IN_VAIN_MAX:
            try:
                report = ask(url, token, voucher)
            except Away as away:
                heard.away[url] = str(away)
                break
            in_vain = in_vain + 1 if instance_of(report) in heard.behind[url] else 0
            heard.behind[url].add(instance_of(report))
            heard.reports[instance_of(report)] = report
            if enough(url, heard):
                break
    return heard


def hear_again(before: Heard, token: str, voucher: str, orders: int, deadline: float) -> Heard:
    """The reports after a rush: of the instances of before, and of others until the reports cover `orders` orders.
    After an outage an instance may reach Redis later than the judge did: it has until the deadline, by time.monotonic()."""

    def enough(url: str, heard: Heard) -> bool:
        return before.behind[url] <= heard.behind[url] and (
            len(before.behind) > 1 or measured(list(heard.reports.values())) >= orders
        )

    while True:
        heard = hear(list(before.behind), token, voucher, enough)
        if time.monotonic() >= deadline or not any(WITHOUT_REDIS in report["missing"] for report in heard.reports.values()):
            return heard
        time.sleep(PAUSE_S)


def remarks(before: Heard, after: Heard, placed: int) -> list[str]:
    """What is no fault of the books: who ended in the rush, and what it took along."""
    said = [f"no instance reports at {url}: {why}" for url, why in after.away.items()]
    gone, came = ended(before, after), after.reports.keys() - before.reports.keys()
    if gone:
        lost = max(0, placed - measured(list(after.reports.values())))
        said.append(f"{len(gone)} of {len(before.reports)} instances ended in the rush: {', '.join(sorted(gone))}")
        said.append(f"started since: {', '.join(sorted(came)) or 'none'}")
        said.append(f"times to durable are in an instance's memory: those of {lost:,} orders or more were lost with it")
    return said


def ended(before: Heard, after: Heard) -> frozenset[str]:
    """The instances that are no more."""
    return frozenset(before.reports.keys() - after.reports.keys())


def instance_of(report: dict) -> str:
    """Its name, and when it began to measure: a restarted one has lost its times."""
    return f"{report['time_to_durable']['instance']} since {report['time_to_durable']['instance_since']}"


def measured(reports: list[dict]) -> int:
    return sum(report["time_to_durable"]["count"] for report in reports)


def differences(reports: list[dict], counted: Counted) -> list[str]:
    """Where the reports differ from the outside count; each as 'what: theirs, counted ours'."""
    wrong = [line for report in reports for line in differences_of(report, counted)]
    least, most = counted.placed, sum(counted.orders.values()) - counted.orders["refused"]
    if counted.gone:
        least = 0
        for report in reports:
            theirs, own = measured([report]), counted.placed_at.get(instance_of(report), 0)
            if theirs < own:
                wrong.append(f"times to durable of {instance_of(report)}: {theirs}, counted {own} orders")
    if not least <= measured(reports) <= most:
        wrong.append(f"times to durable: {measured(reports)}, counted {least} to {most} orders")
    return wrong


def differences_of(report: dict, counted: Counted) -> list[str]:
    orders, units, redis = report["orders"], report["units"], report["redis"]
    live = counted.orders["unpaid"] + counted.orders["paid"]
    pairs = {
        "units now": (units["offered"] - units["taken_away"], counted.units),
        "units remaining": (units["remaining"], counted.stock),
        "units sold": (units["sold"], counted.live_units),
        "orders sold": (orders["sold"]["orders"], live),
        "orders refunded": (
            orders["refunded_restocked"]["orders"] + orders["refunded_kept"]["orders"],
            counted.orders["refunded"],
        ),
        "duplicates": (report["checks"]["duplicates"], 0),
        "journal": (redis.get("journal"), 0),
        "stock in Redis": (redis.get("stock"), counted.redis_stock),
        "buyers in Redis": (redis.get("buyers"), counted.buyers),
        "wrong sums": (len(report["wrong"]), 0),
        "missing beside what may be": (sorted(report["missing"].keys() - MAY_BE_MISSING.keys()), []),
    }
    pairs |= {f"orders {status}": (orders[status]["orders"], counted.orders[status]) for status in STATUSES}
    wrong = [f"{what}: {theirs}, counted {ours}" for what, (theirs, ours) in pairs.items() if theirs != ours]
    expected = "wrong" if report["wrong"] else "open" if report["missing"] else "balanced"
    if report["verdict"] != expected:
        wrong.append(f"verdict: {report['verdict']}, with what it names it is {expected}")
    return wrong


def percentiles(reports: list[dict]) -> dict[str, float]:
    """In ms, over all instances: they have the same buckets, so the counts can be added."""
    buckets: Counter[float] = Counter()
    for report in reports:
        for end_ms, count in report["time_to_durable"]["buckets"]:
            buckets[end_ms] += count
    most = max((report["time_to_durable"]["max_ms"] for report in reports), default=0)
    total, seen, found = sum(buckets.values()), 0, {}
    for end_ms in sorted(buckets):
        seen += buckets[end_ms]
        for name, share in SHARES.items():
            if seen >= share * total:
                found.setdefault(name, min(end_ms, most))
    return found | {"max": most} if found else {}


def verdict_of(report: dict) -> str:
    """With what it names; and whether that is no failure."""
    named = sorted(report["wrong"] | report["missing"])
    text = " ".join([report["verdict"], *named])
    if report["verdict"] != "open" or not MAY_BE_MISSING.keys() >= set(named):
        return text
    return f"{text} (as expected: {' and '.join(MAY_BE_MISSING[what] for what in named)})"


def lines(reports: list[dict]) -> dict[str, str]:
    """For people: the verdict of each instance, and the time to durable over all instances."""
    verdicts = Counter(verdict_of(report) for report in reports)
    times = " / ".join(f"{name} {ms:.1f}" for name, ms in percentiles(reports).items())
    shown = {"settlement": ", ".join(f"{n} x {verdict}" for verdict, n in verdicts.items())}
    shown["time to durable"] = f"{times} ms, of {measured(reports):,} orders" if times else "-"
    if len(reports) > 1:
        for report in sorted(reports, key=instance_of):
            name = f"  {report['time_to_durable']['instance']}"
            alone = " / ".join(f"{what} {ms:.1f}" for what, ms in percentiles([report]).items())
            shown[name] = f"{alone} ms, of {measured([report]):,}" if alone else "-"
    return shown
