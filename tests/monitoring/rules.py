"""The alert rules before any service runs: promtool reads them, and each is shown what it must fire at, and what it must
not.

Series are written as promtool does: `a+bxn` is a, a+b, ... a+b*n, one value each 15 s.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import yaml

BUY = 'route="/seckill/{voucher}"'
HERE = {"job": "seckill", "instance": "a"}
JOB = {"job": "seckill"}
WEBHOOKS = {"job": "seckill-webhooks", "instance": "a"}
AT_REST, NOT_YET, LONG = "15m", "15s", 80


class Wrong(Exception):
    """Said in one line."""


@dataclass(frozen=True)
class Row:
    """One alert: series that fire it, series as close to them that do not, and what it says where."""

    alert: str
    severity: str
    fires: dict[str, str]
    quiet: dict[str, str]
    labels: dict[str, str]
    fires_at_once: bool = False  # it has no `for`
    of: dict[str, str] = field(default_factory=lambda: HERE)  # the process that has the series


def still(value: object) -> str:
    return f"{value}+0x{LONG}"


def grows(by: object) -> str:
    return f"0+{by}x{LONG}"


def server(name: str, store: str = "redis", server: str = "a:1") -> str:
    return f'seckill_server_{name}{{store="{store}",server="{server}"}}'


def links(store: str, up: int) -> dict[str, str]:
    """One of two servers has so many."""
    return {
        server("up", store): still(up),
        server("up", store, "b:2"): still(2),
        f'seckill_link_up{{store="{store}",link="orders"}}': still(up),
        f'seckill_link_up{{store="{store}",link="queries"}}': still(2),
        "seckill_reactors": still(2),
    }


def purchases(ok: float, failed: float) -> dict[str, str]:
    return {
        f'seckill_http_requests_total{{{BUY},status="201",code="PLACED"}}': grows(ok),
        f'seckill_http_requests_total{{{BUY},status="503",code="UNAVAILABLE"}}': grows(failed),
    }


def overloads(by: int) -> dict[str, str]:
    return {f'seckill_http_requests_total{{{BUY},status="503",code="OVERLOADED"}}': grows(by)}


def took(bound: str, beyond: str) -> dict[str, str]:
    """All orders between two bounds of the histogram."""
    return {
        f'seckill_order_durable_seconds_bucket{{le="{bound}"}}': grows(0),
        f'seckill_order_durable_seconds_bucket{{le="{beyond}"}}': grows(10),
        'seckill_order_durable_seconds_bucket{le="+Inf"}': grows(10),
    }


def receiver(name: str, shop: object, mail: object) -> dict[str, str]:
    """The metric of two receivers."""
    return {f'seckill_webhook_{name}{{receiver="{one}",shard="0"}}': still(value) for one, value in (("shop", shop), ("mail", mail))}


def gauge(name: str, fires: object, quiet: object) -> tuple[dict[str, str], dict[str, str]]:
    return {name: still(fires)}, {name: still(quiet)}


def counter(name: str, fires: float, quiet: float) -> tuple[dict[str, str], dict[str, str]]:
    return {name: grows(fires)}, {name: grows(quiet)}


def share(part: str, whole: str, fires: int, quiet: int, of: int = 100) -> tuple[dict[str, str], dict[str, str]]:
    return {part: still(fires), whole: still(of)}, {part: still(quiet), whole: still(of)}


ROWS = [
    Row("SeckillDown", "page", *gauge("up", 0, 1), HERE),
    Row("SeckillNotReady", "page", *share("seckill_reactors_ready", "seckill_reactors", 1, 2, of=2), HERE),
    Row(
        "SeckillRedisAway",
        "page",
        links("redis", 1),
        links("redis", 2) | links("postgresql", 1),
        HERE | {"store": "redis", "server": "a:1"},
    ),
    Row(
        "SeckillRedisAway",
        "page",
        {'seckill_link_up{store="redis",link="orders"}': still(0), "seckill_reactors": still(2)},
        {'seckill_link_up{store="redis",link="orders"}': still(2), "seckill_reactors": still(2)},
        HERE,
    ),
    Row(
        "SeckillPostgresqlAway",
        "page",
        links("postgresql", 0),
        links("postgresql", 2) | links("redis", 0),
        HERE | {"store": "postgresql", "server": "a:1"},
    ),
    Row(
        "SeckillPostgresqlAway",
        "page",
        {'seckill_link_up{store="postgresql",link="reports"}': still(1), "seckill_reactors": still(2)},
        {'seckill_link_up{store="postgresql",link="reports"}': still(2), "seckill_reactors": still(2)},
        HERE,
    ),
    Row(
        "SeckillLinksFlap",
        "ticket",
        *counter(server("lost_total"), 0.5, 0.2),
        HERE | {"store": "redis", "server": "a:1"},
    ),
    Row(
        "SeckillServerSlow",
        "ticket",
        {server("answer_seconds_sum"): grows(3), server("answer_seconds_count"): grows(10)},
        {server("answer_seconds_sum"): grows(2), server("answer_seconds_count"): grows(10)},
        HERE | {"store": "redis", "server": "a:1"},
    ),
    Row("SeckillPurchasesFail", "page", purchases(98, 2), purchases(99.5, 0.5) | overloads(50), HERE),
    Row("SeckillOverloaded", "ticket", overloads(1), overloads(0) | purchases(1, 1), HERE),
    Row("SeckillSlow", "ticket", took("0.8192", "1.6384"), took("0.2048", "0.4096"), HERE),
    Row("SeckillOrdersPileUp", "page", *share('seckill_orders{state="granted"}', "seckill_orders_max", 81, 79), HERE),
    Row(
        "SeckillOrdersStuck",
        "ticket",
        {'seckill_orders{state="lost"}': still(1), 'seckill_orders{state="delayed"}': still(2)},
        {'seckill_orders{state="granted"}': still(500), 'seckill_orders{state="lost"}': still(0)},
        HERE,
    ),
    Row("SeckillJournalOld", "page", *gauge("seckill_journal_oldest_seconds", 61, 59), JOB),
    Row("SeckillJournalDeep", "page", *gauge("seckill_journal_entries", 50001, 49999), JOB),
    Row("SeckillDeadLetters", "ticket", *gauge("seckill_dead_letters_waiting", 1, 0), JOB),
    Row("SeckillPaymentsToRefund", "ticket", *gauge("seckill_payments_to_refund", 1, 0), JOB),
    Row(
        "SeckillPaymentsToRefund",
        "ticket",
        {"seckill_payments_to_refund": f"1+0x{LONG // 2} 0 0 1+0x{LONG // 2}"},  # the instance restarts meanwhile
        {"seckill_payments_to_refund": f"1+0x{LONG // 4} 0+0x{LONG}"},  # all were given back
        JOB,
    ),
    Row("SeckillBooksDiffer", "page", *gauge("seckill_books_differ", 1, 0), JOB),
    Row(
        "SeckillRedisLostData",
        "ticket",
        {'seckill_audit_findings_total{finding="behind"}': f"0+0x{LONG // 2} 1+0x{LONG // 2}"},
        {'seckill_audit_findings_total{finding="agree"}': grows(3)},
        JOB,
        fires_at_once=True,
    ),
    Row("SeckillRebuildsFail", "page", *counter("seckill_rebuilds_failed_total", 0.3, 0.1), JOB),
    Row("SeckillUpkeepStalls", "ticket", *gauge("seckill_audit_round_age_seconds", 31, 29), HERE),
    Row("SeckillSessionsLost", "ticket", *counter("seckill_sessions_lost_total", 0.1, 0.04), HERE),
    Row(
        "SeckillAuthFails",
        "ticket",
        {'seckill_auth_failures_total{kind="admin_token"}': grows(0.6)},
        {'seckill_auth_failures_total{kind="admin_token"}': grows(0.4), 'seckill_auth_failures_total{kind="signature"}': grows(0.4)},
        JOB | {"kind": "admin_token"},
    ),
    Row(
        "SeckillConnectionsNearlyFull",
        "page",
        {
            'seckill_connections{state="idle"}': still(50),
            'seckill_connections{state="parked"}': still(41),
            "seckill_connections_max": still(100),
        },
        {
            'seckill_connections{state="idle"}': still(50),
            'seckill_connections{state="parked"}': still(39),
            "seckill_connections_max": still(100),
        },
        HERE,
    ),
    Row(
        "SeckillAccessLogDrops",
        "ticket",
        {"seckill_access_log_dropped_total": grows(0.05)},
        {"seckill_access_log_dropped_total": still(7)},
        HERE,
    ),
    Row("SeckillFileDescriptors", "page", *share("process_open_fds", "process_max_fds", 91, 89), HERE),
    Row(
        "SeckillWebhookBehind",
        "ticket",
        receiver("unsent_seconds", 301, 299),
        receiver("unsent_seconds", 300, 0),
        {"job": WEBHOOKS["job"], "receiver": "shop", "shard": "0"},
        of=WEBHOOKS,
    ),
    Row(
        "SeckillWebhookBehind",  # one page after the other is taken, each within time
        "ticket",
        {'seckill_webhook_unsent_seconds{receiver="shop",shard="1"}': f"0+15x{LONG}"},
        {'seckill_webhook_unsent_seconds{receiver="shop",shard="1"}': " ".join(["0+20x14"] * 6)},
        {"job": WEBHOOKS["job"], "receiver": "shop", "shard": "1"},
        of=WEBHOOKS,
    ),
    Row(
        "SeckillWebhookStopped",
        "ticket",
        receiver("stopped", 1, 0),
        receiver("stopped", 0, 0) | receiver("unsent_seconds", 900, 900),
        {"job": WEBHOOKS["job"], "receiver": "shop", "shard": "0"},
        of=WEBHOOKS,
    ),
    Row("SeckillWebhooksDown", "ticket", *gauge("up", 0, 1), WEBHOOKS, of=WEBHOOKS),
]


def alerts_of(rules: str) -> list[str]:
    return re.findall(r"- alert: (\w+)", rules)


def run(*command: object) -> tuple[bool, str]:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    return done.returncode == 0, (done.stdout + done.stderr).strip()


def series_of(series: dict[str, str], of: dict[str, str]) -> list[dict[str, str]]:
    """Each series is of one instance."""
    here = ",".join(f'{name}="{value}"' for name, value in of.items())
    found = []
    for name, values in series.items():
        named, _, labels = name.partition("{")
        found.append({"series": f"{named}{{{here}{',' + labels[:-1] if labels else ''}}}", "values": values})
    return found


def case(row: Row, fires: bool) -> dict[str, object]:
    said = [{"exp_labels": row.labels | {"severity": row.severity}}] if fires else []
    moments = [{"eval_time": AT_REST, "alertname": row.alert, "exp_alerts": said}]
    if fires and not row.fires_at_once:  # `for` has not passed
        moments.append({"eval_time": NOT_YET, "alertname": row.alert, "exp_alerts": []})
    return {
        "interval": "15s",
        "input_series": series_of(row.fires if fires else row.quiet, row.of),
        "alert_rule_test": moments,
    }


def judge(rules: str, folder: Path) -> str:
    """What promtool says of the rules when they are shown all rows; "" if they do as they should."""
    plain = re.sub(r"\n {8}annotations:(\n {10}.*)+", "", rules)  # their texts are told by the rule itself
    (folder / "rules.yml").write_text(plain)
    tests = {"rule_files": ["rules.yml"], "evaluation_interval": "15s"}
    tests["tests"] = [case(row, fires) for row in ROWS for fires in (True, False)]
    (folder / "rules_test.yml").write_text(json.dumps(tests, indent=1))  # JSON is YAML
    good, said = run("promtool", "test", "rules", folder / "rules_test.yml")
    return "" if good else said


def unexplained(rules: str) -> list[str]:
    """Alerts that do not say what buyers notice, what to do first, and where more is written (tests/anchors)."""
    faults = []
    for rule in yaml.safe_load(rules)["groups"][0]["rules"]:
        told = rule["annotations"]
        said = re.fullmatch(r"(?P<means>.+?)\. Buyers: (?P<buyers>.+?)\. First: (?P<do>.+)\.", told.get("description", "").strip())
        if not said or not re.fullmatch(r"docs/(sale-day|upkeep)\.md#[\w-]+", told.get("runbook_url", "")):
            faults.append(rule["alert"])
    return faults


# What must be noticed: a rule that was changed, and by what.
BROKEN = [
    ("the server", "seckill_server_up{store=\"redis\"} <", "min by (job, instance) (seckill_server_up{store=\"redis\"}) <"),
    ("a threshold", "seckill_journal_oldest_seconds) > 60", "seckill_journal_oldest_seconds) > 600"),
    ("a name", "seckill_books_differ", "seckill_book_differs"),
    ("a label", 'status=~"5.."', 'status="5xx"'),
    ("a side", "seckill_reactors_ready < seckill_reactors", "seckill_reactors_ready > seckill_reactors"),
    ("a restart", "max_over_time(seckill_payments_to_refund[1m])", "seckill_payments_to_refund"),
    ("a job", 'up{job="seckill-webhooks"}', 'up{job="seckill"}'),
    ("a receiver", "max by (job, receiver, shard) (seckill_webhook_stopped)", "max by (job) (seckill_webhook_stopped)"),
    ("no `for`", "seckill_dead_letters_waiting) > 0\n        for: 1m", "seckill_dead_letters_waiting) > 0"),
]


def check(path: Path, folder: Path) -> int:
    """Gives the number of alerts."""
    rules = path.read_text()
    good, said = run("promtool", "check", "rules", path)
    if not good:
        raise Wrong(f"promtool does not take {path}: {said}")
    alerts, rows = alerts_of(rules), [row.alert for row in ROWS]
    if set(alerts) != set(rows):
        raise Wrong(f"alerts without a row, or the other way round: {sorted(set(alerts) ^ set(rows))}")
    if complaint := judge(rules, folder):
        raise Wrong(complaint)
    if faults := unexplained(rules):
        raise Wrong(f"alerts without a description or a runbook: {faults}")
    for part, other in (("Buyers:", "Others:"), ("First:", "Then:"), ("  runbook_url:", "  runbook:")):
        if not unexplained(rules.replace(part, other, 1)):
            raise Wrong(f"an alert without {part.strip()} was not noticed")
    for what, old, new in BROKEN:
        if rules.count(old) != 1:
            raise Wrong(f"the negative control '{what}' does not fit the rules")
        if not judge(rules.replace(old, new), folder):
            raise Wrong(f"a rule with {what} changed was not noticed")
    return len(alerts)
