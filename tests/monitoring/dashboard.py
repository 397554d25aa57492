"""The dashboard: every expression of every panel is asked of a real Prometheus, and must have an answer."""

from __future__ import annotations

import copy
import json
import math
import re
from pathlib import Path

from prometheus import Prometheus

# What Grafana puts in, for a Prometheus that scrapes once a second.
VARIABLES = {"$__rate_interval": "10s", "$__interval": "1s", "$job": ".*", "$instance": ".*"}


def read(path: Path) -> dict:
    return json.loads(path.read_text())


def targets(board: dict) -> list[tuple[str, str]]:
    """(panel's title, expression)"""
    return [(panel["title"], target["expr"]) for panel in board["panels"] for target in panel.get("targets", [])]


def shown(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def complaint(prometheus: Prometheus, expression: str) -> str:
    """Why a panel would be empty; "" if it is not."""
    asked = shown(expression)
    if left := re.findall(r"\$\w+", asked):
        return f"a variable that is not known: {left[0]}"
    for answer in (prometheus.query(asked), prometheus.query_range(asked)):
        if answer["status"] != "success":
            return f"{answer.get('errorType')}: {answer.get('error')}"
        values = [value for series in answer["data"]["result"] for _, value in series.get("values", [series.get("value")])]
        if not values:
            return "no series"
        if not any(math.isfinite(float(value)) for value in values):
            return "no number"
    return ""


def complaints(prometheus: Prometheus, board: dict) -> list[str]:
    found = []
    for title, expression in targets(board):
        if why := complaint(prometheus, expression):
            found.append(f"{title}: {why}: {expression}")
    return found


def broken(board: dict) -> list[tuple[str, dict]]:
    """Boards with one mistake each, which must be found."""
    boards = []
    mistakes = [
        ("a wrong name", lambda e: e.replace("seckill_journal_entries", "seckill_journal_entrys")),
        ("a wrong label", lambda e: e.replace('route="/seckill/{voucher}"', 'route="/seckill"')),
        ("a bracket too few", lambda e: e.removesuffix(")") if e.startswith("sum(") else e),
        ("an unknown variable", lambda e: e.replace("$instance", "$host")),
    ]
    for what, change in mistakes:
        board_of_it = copy.deepcopy(board)
        for panel in board_of_it["panels"]:
            for target in panel.get("targets", []):
                target["expr"] = change(target["expr"])
        boards.append((what, board_of_it))
    return boards
