"""Requests the service's own settlement report of a voucher from each instance, and compares it with an outside count.

The start of its measurement identifies an instance, because a gateway may send each request to another one.
"""

from __future__ import annotations

import itertools
import json
import urllib.error
import urllib.request
from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from lib import common

ASK_S = 60
IN_VAIN_MAX = 30  # requests in a row that reached no new instance: there is none
STATUSES = ("unpaid", "paid", "cancelled", "expired", "refused")
MAY_BE_MISSING = {"SALE_ON": "the sale is on", "UNPAID": "orders may still be paid"}  # right after a rush
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


def ask(url: str, token: str, voucher: str) -> dict:
    """One instance's report, as JSON. Waits for its turn while another report is being counted."""
    request = urllib.request.Request(
        f"{url}/admin/vouchers/{voucher}/settlement", headers={"Authorization": f"Bearer {token}"}
    )
    report: dict = {}

    def told() -> bool:
        try:
            with urllib.request.urlopen(request, timeout=ASK_S) as answer:
                report.update(json.load(answer))
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise common.Failure(f"{request.full_url} answered {error.code}: {error.read().decode()}") from error
        except OSError as error:
            raise common.Failure(f"{request.full_url}: {error}") from error
        return bool(report)

    common.wait_for(f"{request.full_url}", told, ASK_S)
    return report


def ask_all(urls: list[str], token: str, voucher: str, orders: int) -> list[dict]:
    """A report from each instance behind these addresses. Behind one address it repeats until the reports cover
    `orders` orders, or no new instance appears."""
    reports: dict[str, dict] = {}
    in_vain = 0
    for asked, url in enumerate(itertools.cycle(urls), start=1):
        report = ask(url, token, voucher)
        instance = report["time_to_durable"]["instance_since"]
        in_vain = in_vain + 1 if instance in reports else 0
        reports[instance] = report
        if asked >= len(urls) and (measured(list(reports.values())) >= orders or in_vain >= IN_VAIN_MAX):
            break
    return list(reports.values())


def measured(reports: list[dict]) -> int:
    return sum(report["time_to_durable"]["count"] for report in reports)


def differences(reports: list[dict], counted: Counted) -> list[str]:
    """Where the reports differ from the outside count; each as 'what: theirs, counted ours'."""
    wrong = [line for report in reports for line in differences_of(report, counted)]
    least, most = counted.placed, sum(counted.orders.values()) - counted.orders["refused"]
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
        for report in sorted(reports, key=lambda one: one["time_to_durable"]["instance_since"]):
            since = datetime.fromisoformat(report["time_to_durable"]["instance_since"].replace("Z", "+00:00"))
            name = f"  since {since:%H:%M:%S}.{since.microsecond // 1000:03d}"
            alone = " / ".join(f"{what} {ms:.1f}" for what, ms in percentiles([report]).items())
            shown[name] = f"{alone} ms, of {measured([report]):,}" if alone else "-"
    return shown
