"""The charts of a rush over time: units left, answers a second by kind, commits a second, waits; and the
distribution of the times to durable. Each scale begins at 0, and each kind of answer has its own: the few winners
would be invisible next to the refused crowd."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from lib.common import Load
from lib.drawing import dot, figure, line, text
from lib.panels import scale, steps_to
from report.readings import SHOWN, percentile
from report.sampler import Step, Tick, steps

WIDTH, HEIGHT = 330, 200
LEFT, RIGHT, TOP, BOTTOM = 60, 14, 52, 36  # space for the scale, the title, and the time
PLOT_WIDTH, PLOT_HEIGHT, FLOOR = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM, HEIGHT - BOTTOM
SHARES = ((0.5, "blue"), (0.9, "green"), (0.99, "red"))
ALWAYS = ("placed", "sold_out")  # have a chart even if there were none


@dataclass(frozen=True)
class Curve:
    kind: str  # its colour
    name: str
    points: list[tuple[float, float | None]]  # s and value; None: unknown
    dashed: bool = False


@dataclass(frozen=True)
class Span:
    """The time range of the charts."""

    seconds: float
    crowd_s: float  # the crowd's end


def draw_all(ticks: list[Tick], units: int, load: Load) -> list[str]:
    span, parts = Span(ticks[-1].at_s, load.seconds), steps(ticks)
    kinds = [kind for kind in SHOWN if kind in ALWAYS or ticks[-1].counts["answers", kind]]
    return [
        left(ticks, units, span),
        *(answers(parts, kind, span) for kind in kinds),
        commits(parts, span),
        waits(parts, load, span),
    ]


def left(ticks: list[Tick], units: int, span: Span) -> str:
    curves = [
        Curve("blue", "Redis", [(tick.at_s, tick.in_redis) for tick in ticks]),
        Curve("orange", "PostgreSQL", [(tick.at_s, tick.in_postgres) for tick in ticks], dashed=True),
    ]
    last = ticks[-1]
    desc = (
        f"{units:,} units at the beginning; at the end {shown(last.in_redis)} that Redis can grant, and "
        f"{shown(last.in_postgres)} in no order that PostgreSQL has committed."
    )
    return chart("left", "Units left", desc, curves, "units", span, units)


def answers(parts: list[Step], kind: str, span: Span) -> str:
    total = sum(part.counts["answers", kind] for part in parts)
    most = max((part.rate("answers", kind) for part in parts), default=0)
    desc = f"{total:,} answers in all, at most {most:,.0f} a second."
    curve = Curve("blue" if kind != "other" else "red", "", rates(parts, "answers", kind))
    return chart(f"answers-{kind}", f"Answers: {SHOWN[kind]}", desc, [curve], "a second", span)


def commits(parts: list[Step], span: Span) -> str:
    total = sum(part.counts["committed", ""] for part in parts)
    desc = f"{total:,} orders committed in PostgreSQL; a 202 is committed also after the crowd's end."
    curve = Curve("green", "", rates(parts, "committed", ""))
    return chart("committed", "Orders committed", desc, [curve], "a second", span)


def rates(parts: list[Step], series: str, label: str) -> list[tuple[float, float | None]]:
    return [(at, part.rate(series, label)) for part in parts for at in (part.begin_s, part.end_s)]


def waits(parts: list[Step], load: Load, span: Span) -> str:
    curves = [
        Curve(
            kind,
            f"p{share * 100:g}",
            [((part.begin_s + part.end_s) / 2, percentile(part.counts, "waits", share)) for part in parts],
        )
        for share, kind in SHARES
    ]
    curves.append(Curve("ink", "p99 of wrk", [(0, load.p99_ms), (load.seconds, load.p99_ms)], dashed=True))
    desc = (
        f"The service's percentiles, interval by interval, from buckets each twice as wide as the one before; dashed: "
        f"wrk's p99 of the whole rush, {load.p99_ms:.1f} ms."
    )
    return chart("waits", "Time to an answer", desc, curves, "ms", span)


def shown(units: int | None) -> str:
    return "an unknown number" if units is None else f"{units:,}"


# ---- one chart ----


def chart(name: str, title: str, desc: str, curves: list[Curve], unit: str, span: Span, least: float = 0) -> str:
    """`least`: the scale reaches at least this value."""
    values = [value for curve in curves for _, value in curve.points if value is not None]
    step, count = steps_to(max([least, *values, 1e-3]), 4)
    across, up = PLOT_WIDTH / span.seconds, PLOT_HEIGHT / (step * count)
    parts = [text(LEFT, 16, title, "ink title"), *legend(curves)]
    parts += scale(unit, LEFT, PLOT_WIDTH, FLOOR, PLOT_HEIGHT, step, count)
    parts += time_axis(span, across)
    for curve in curves:
        for piece in pieces(curve.points):
            places = [(LEFT + at * across, FLOOR - value * up) for at, value in piece]
            parts.append(line(places, f"{curve.kind} curve", 1.6, curve.dashed))
    return figure(name, WIDTH, HEIGHT, title, desc, parts, across=f"{across:.6g}", up=f"{up:.6g}", floor=FLOOR)


def pieces(points: list[tuple[float, float | None]]) -> list[list[tuple[float, float]]]:
    """Splits the curve at points whose value is unknown."""
    found: list[list[tuple[float, float]]] = [[]]
    for at, value in points:
        if value is not None:
            found[-1].append((at, value))
        elif found[-1]:
            found.append([])
    return [piece for piece in found if piece]


def legend(curves: list[Curve]) -> list[str]:
    """In the line of the scale's name, from the right."""
    parts, end = [], WIDTH - RIGHT
    for curve in reversed([curve for curve in curves if curve.name]):
        begin = end - 6 * len(curve.name)
        parts.append(line([(begin - 18, 29), (begin - 4, 29)], curve.kind, 2, curve.dashed))
        parts.append(text(begin, 33, curve.name, "faint"))
        end = begin - 26
    return parts


def time_axis(span: Span, across: float) -> list[str]:
    step, count = steps_to(span.seconds, 4)
    places = [i * step for i in range(count + 1) if i * step <= span.seconds]
    parts = [text(LEFT + at * across, FLOOR + 15, f"{at:g}", "faint", "middle") for at in places]
    parts.append(text(LEFT - 8, FLOOR + 15, "s", "faint", "end"))
    if span.crowd_s < span.seconds:
        end = LEFT + span.crowd_s * across
        parts.append(line([(end, FLOOR), (end, FLOOR - PLOT_HEIGHT)], "faint", 1, dashed=True))
        parts.append(text(end, FLOOR + 29, "the crowd's end", "faint", "end"))
    return parts


# ---- the time to durable ----


def durable(reports: list[dict], percentiles: dict[str, float]) -> str:
    """The share of orders that were durable within a time, on a logarithmic time scale."""
    buckets: Counter[float] = Counter()
    for report in reports:
        for end_ms, count in report["time_to_durable"]["buckets"]:
            buckets[end_ms] += count
    total, most = sum(buckets.values()), percentiles["max"]
    first = math.floor(math.log10(min(buckets)))
    decades = max(1, math.ceil(math.log10(most)) - first)

    def place(ms: float, share: float) -> tuple[float, float]:
        return LEFT + PLOT_WIDTH * (math.log10(ms) - first) / decades, FLOOR - PLOT_HEIGHT * share

    curve, below = [(LEFT, FLOOR)], 0
    for end_ms in sorted(buckets):
        below += buckets[end_ms]
        curve.append(place(min(end_ms, most), below / total))
    words = ", ".join(f"{name} {ms:.1f} ms" for name, ms in percentiles.items())
    desc = f"From taking a purchase to its commit, {total:,} orders: {words}."
    parts = [text(LEFT, 16, "Time to durable", "ink title")]
    parts += scale("% of the orders", LEFT, PLOT_WIDTH, FLOOR, PLOT_HEIGHT, 25, 4)
    for ms in (10.0 ** (first + i) for i in range(decades + 1)):
        x, _ = place(ms, 0)
        parts += [line([(x, FLOOR), (x, FLOOR - PLOT_HEIGHT)]), text(x, FLOOR + 15, f"{ms:g}", "faint", "middle")]
    parts += [text(LEFT - 12, FLOOR + 15, "ms", "faint", "end"), line(curve, "green curve", 1.6)]
    parts += [dot(*place(ms, shares_of(name)), "green") for name, ms in percentiles.items()]
    return figure("durable", WIDTH, HEIGHT, "Time to durable", desc, parts)


def shares_of(name: str) -> float:
    return 1.0 if name == "max" else float(name[1:]) / 100
