"""The chart of the scaling tables: one panel for each, with the CPU of an answer above and its p99 below. Each has
its own scale that begins at 0."""

from __future__ import annotations

import math

from lib.drawing import box, dot, line, page, swatch, text

COLUMNS, PANEL_WIDTH, PANEL_HEIGHT, TOP = 3, 330, 310, 70
LEFT, RIGHT = 48, 14  # of a panel: space for its scale
CPU_TOP, CPU_HEIGHT = 46, 130
WAIT_TOP, WAIT_HEIGHT = 228, 56
BARS = (("server", "blue", "service"), ("redis", "orange", "Redis"), ("postgres", "green", "PostgreSQL"))


def draw(tables: list[dict]) -> str:
    columns, rows = min(COLUMNS, len(tables)), math.ceil(len(tables) / COLUMNS)
    parts = [text(16, 24, "What a durable order costs as one thing grows", "ink title"), *legend()]
    for number, table in enumerate(tables):
        parts += panel(table, number % COLUMNS * PANEL_WIDTH, TOP + number // COLUMNS * PANEL_HEIGHT)
    return page(max(columns * PANEL_WIDTH, 2 * PANEL_WIDTH), TOP + rows * PANEL_HEIGHT, parts)


def legend() -> list[str]:
    parts = [swatch(16 + 90 * i, 50, kind, words) for i, (_, kind, words) in enumerate(BARS)]
    parts += [line([(306, 46), (330, 46)], "ink", 1.5, dashed=True), text(336, 50, "client (wrk)")]
    parts += [line([(426, 46), (450, 46)], "red", 1.5), dot(438, 46, "red"), text(456, 50, "p99")]
    return parts


def panel(table: dict, x: float, y: float) -> list[str]:
    rows = table["rows"]
    left, width = x + LEFT, PANEL_WIDTH - LEFT - RIGHT
    places = [left + width * (i + 0.5) / len(rows) for i in range(len(rows))]
    below = y + CPU_TOP + CPU_HEIGHT + 18
    labels = [text(at, below, f"{row['value']:,}", "faint", "middle") for at, row in zip(places, rows)]
    title = text(left, y + 18, table["title"], "ink title")
    return [title, *labels, *cpu_plot(rows, places, left, width, y), *wait_plot(rows, places, left, width, y)]


def cpu_plot(rows: list[dict], places: list[float], left: float, width: float, y: float) -> list[str]:
    costs = [{name: seconds * 1000 for name, seconds in row["cpu_s_per_1000"].items()} for row in rows]
    step, steps = steps_to(max(max(sum(cost[name] for name, _, _ in BARS), cost["client"]) for cost in costs), 4)
    bottom, unit = y + CPU_TOP + CPU_HEIGHT, CPU_HEIGHT / (steps * step)
    parts = scale("CPU, ms for 1,000 answers", left, width, bottom, CPU_HEIGHT, step, steps)
    bar = min(34.0, width / len(rows) * 0.6)
    for at, cost in zip(places, costs):
        top = bottom
        for name, kind, _ in BARS:
            top -= cost[name] * unit
            parts.append(box(at - bar / 2, top, bar, cost[name] * unit, kind, 0))
    client = [(at, bottom - cost["client"] * unit) for at, cost in zip(places, costs)]
    return parts + [line(client, "ink", 1.5, dashed=True)]


def wait_plot(rows: list[dict], places: list[float], left: float, width: float, y: float) -> list[str]:
    step, steps = steps_to(max(row["p99_ms"] for row in rows), 2)
    bottom, unit = y + WAIT_TOP + WAIT_HEIGHT, WAIT_HEIGHT / (steps * step)
    points = [(at, bottom - row["p99_ms"] * unit) for at, row in zip(places, rows)]
    return [
        *scale("p99, ms", left, width, bottom, WAIT_HEIGHT, step, steps),
        line(points, "red", 1.5),
        *(dot(*point, "red") for point in points),
    ]


def scale(name: str, left: float, width: float, bottom: float, height: float, step: float, steps: int) -> list[str]:
    parts = [text(left, bottom - height - 7, name, "faint")]
    for i in range(steps + 1):
        at = bottom - height * i / steps
        parts += [line([(left, at), (left + width, at)]), text(left - 6, at + 4, f"{step * i:,.10g}", "faint", "end")]
    return parts


def steps_to(most: float, steps: int) -> tuple[float, int]:
    """The smallest round step that reaches `most` within `steps` steps, and how many steps that takes."""
    power = 10 ** math.floor(math.log10(max(most, 1e-9) / steps))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor * steps >= most)
    return step, max(1, math.ceil(most / step))
