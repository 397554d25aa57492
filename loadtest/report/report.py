"""A rush as one HTML file: verdict, figures, charts, the judge's findings, and the environment. It needs no script
and nothing from outside, so it can be opened from a disk, mailed and printed. Its content policy forbids everything
else."""

from __future__ import annotations

import html
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Iterable

import settlement
from judge import Finding
from lib.common import Load
from lib.drawing import COLOURS, rules
from report import charts
from report.readings import OTHER, SHOWN, percentile
from report.sampler import Tick, less

NAME = "report.html"
BALANCED, BROKEN = "The books balance.", "BROKEN"
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
VERDICTS = {"good": ("#256b43", "#7fd1a3"), "bad": ("#b3261e", "#ff8a80")}  # on a light background, and on a dark one
TOLD = ("ink", "faint", "rule", "ground")


@dataclass(frozen=True)
class Rush:
    """Everything the report contains."""

    units: int
    connections: int
    load: Load
    ticks: list[Tick]
    orders: int  # the judge's: rows that were not refused
    left: dict[str, int | None]  # the judge's: units left by each store
    findings: list[Finding]
    reports: list[dict]  # of the service, one from each instance; empty: not requested
    figures: dict[str, str]
    settings: dict[str, str]
    machine: dict[str, str]

    @property
    def broken(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.count]


@dataclass(frozen=True)
class Sum:
    """A curve's total and the judge's count. The service also answers requests that wrk does not read when it ends."""

    what: str
    drawn: int | None
    counted: int | None
    unread: int = 0  # at most this many answers

    @property
    def fits(self) -> bool:
        if self.drawn is None or self.counted is None:
            return self.drawn == self.counted
        return 0 <= self.drawn - self.counted <= self.unread


def write(rush: Rush, folder: Path) -> Path:
    file = folder / NAME
    file.write_text(render(rush), encoding="utf-8")
    return file


def render(rush: Rush) -> str:
    good = not rush.broken
    body = [
        f"<h1>{rush.load.asked:,} users, {rush.units:,} units</h1>",
        f'<p class="when">{moment(rush.load.started_at)}, {rush.load.seconds:.1f} s</p>',
        f'<p class="verdict {"good" if good else "bad"}">{told_verdict(rush)}</p>',
        *section("Course", drawn(rush)),
        *section("Figures", facts(rush.figures)),
        *section("What the judge found", table(("looked for", "wrong", "found"), finding_rows(rush), "findings")),
        *section(
            "The curves beside the judge's count",
            "<p>The curves are what the service counts (/metrics, all instances added up). The judge counts what wrk "
            "was told, and the rows and units of both stores. wrk ends without reading what is still on its way to "
            f"it: at most {rush.connections:,} answers, one a connection.</p>",
            table(("what", "by the curve", "by the judge", "they"), sum_rows(rush), "sums"),
        ),
        *section("Settings", facts(rush.settings)),
        *section("Machine", facts(rush.machine)),
        f"<details><summary>The samples, {len(rush.ticks):,}</summary>{samples(rush)}</details>",
    ]
    return page(f"{rush.load.asked:,} users, {rush.units:,} units: {BALANCED if good else BROKEN}", body)


def told_verdict(rush: Rush) -> str:
    if not rush.broken:
        return f"<strong>{BALANCED}</strong>"
    return f"<strong>{BROKEN}</strong> " + html.escape(", ".join(f"{one.name} ({one.count:,})" for one in rush.broken))


def drawn(rush: Rush) -> str:
    figures = charts.draw_all(rush.ticks, rush.units, rush.load)
    if percentiles := settlement.percentiles(rush.reports):
        figures.append(charts.durable(rush.reports, percentiles))
    return '<div class="charts">' + "".join(f"<figure>{figure}</figure>" for figure in figures) + "</div>"


def finding_rows(rush: Rush) -> Iterable[tuple[str, ...]]:
    for finding in rush.findings:
        yield finding.name, f"{finding.count:,}", f"WRONG: {finding.why}" if finding.count else "ok"


def sums(rush: Rush) -> list[Sum]:
    counts, told = rush.ticks[-1].counts, rush.load.answers | {OTHER: sum(rush.load.others.values())}
    found = [
        Sum(f"answers: {words}", counts["answers", kind], told[kind], rush.connections) for kind, words in SHOWN.items()
    ]
    found.append(Sum("orders committed", counts["committed", ""], rush.orders))
    found.append(Sum("units left in Redis", rush.ticks[-1].in_redis, rush.left["redis"]))
    found.append(Sum("units left in PostgreSQL", rush.ticks[-1].in_postgres, rush.left["postgres"]))
    return found


def sum_rows(rush: Rush) -> Iterable[tuple[str, ...]]:
    for one in sums(rush):
        yield one.what, known(one.drawn), known(one.counted), "agree" if one.fits else "DIFFER"


def samples(rush: Rush) -> str:
    head = ("s", "left, Redis", "left, PostgreSQL", "committed", *SHOWN.values(), "p50 ms", "p99 ms")
    return table(head, sample_rows(rush.ticks), "samples")


def sample_rows(ticks: list[Tick]) -> Iterable[tuple[str, ...]]:
    """Counts since the beginning; percentiles since the previous row."""
    for before, tick in zip([ticks[0], *ticks], ticks):
        since = less(tick.counts, before.counts)
        times = (percentile(since, "waits", share) for share in (0.5, 0.99))
        yield (
            f"{tick.at_s:.2f}",
            known(tick.in_redis),
            known(tick.in_postgres),
            known(tick.counts["committed", ""]),
            *(known(tick.counts["answers", kind]) for kind in SHOWN),
            *("-" if ms is None else f"{ms:.1f}" for ms in times),
        )


def known(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


# ---- HTML ----


def section(title: str, *parts: str) -> list[str]:
    return ["<section>", f"<h2>{html.escape(title)}</h2>", *parts, "</section>"]


def facts(told: dict[str, str]) -> str:
    rows = "".join(f"<dt>{html.escape(name.strip())}</dt><dd>{html.escape(value)}</dd>" for name, value in told.items())
    return f"<dl>{rows}</dl>"


def table(head: Iterable[str], rows: Iterable[Iterable[str]], name: str) -> str:
    top = "".join(f'<th scope="col">{html.escape(words)}</th>' for words in head)
    body = "\n".join(f"<tr>{cells(row)}</tr>" for row in rows)
    return (
        f'<div class="wide" role="region" aria-label="{name}" tabindex="0"><table id="{name}">'
        f"<thead><tr>{top}</tr></thead><tbody>\n{body}\n</tbody></table></div>"
    )


def cells(row: Iterable[str]) -> str:
    first, *others = row
    shown = "".join(f"<td{mark(words)}>{html.escape(words)}</td>" for words in others)
    return f'<th scope="row">{html.escape(first)}</th>{shown}'


def mark(words: str) -> str:
    if words in ("ok", "agree"):
        return ' class="good"'
    return ' class="bad"' if words.startswith(("WRONG", "DIFFER")) else ""


def page(title: str, body: Iterable[str]) -> str:
    lines = "\n".join(body)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>
{style()}
</style>
</head>
<body>
<main>
{lines}
</main>
</body>
</html>
"""


def style() -> str:
    """Prints use the colours for a light background."""
    colours = {name: COLOURS[name] for name in TOLD} | VERDICTS
    light, dark = ("; ".join(f"--{name}: {pair[shade]}" for name, pair in colours.items()) for shade in (0, 1))
    where = "screen and (prefers-color-scheme: dark)"
    return f"""{rules(where)}
:root {{ color-scheme: light dark; {light} }}
@media {where} {{ :root {{ {dark} }} }}
body {{ margin: 0; background: var(--ground); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif }}
main {{ max-width: 66rem; margin: 0 auto; padding: 1rem }}
h1 {{ font-size: 1.5rem; margin: 0 }}
h2 {{ font-size: 1.15rem; margin: 2rem 0 .5rem }}
.when {{ margin: 0; color: var(--faint) }}
.verdict {{ border-left: .4rem solid; padding: .3rem .8rem; font-size: 1.2rem; overflow-wrap: anywhere }}
.good {{ color: var(--good) }}
.bad {{ color: var(--bad) }}
.charts {{ display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 18rem), 1fr)) }}
figure {{ margin: 0; break-inside: avoid }}
svg {{ width: 100%; height: auto; font-family: system-ui, sans-serif }}
dl {{ display: grid; grid-template-columns: minmax(7rem, auto) 1fr; gap: .1rem 1rem; margin: 0 }}
dt {{ color: var(--faint) }}
dd {{ margin: 0; overflow-wrap: anywhere }}
@media (max-width: 30rem) {{ dl {{ display: block }} dd {{ margin-bottom: .4rem }} }}
.wide {{ overflow-x: auto }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums }}
th, td {{ padding: .15rem .6rem .15rem 0; border-bottom: 1px solid var(--rule) }}
th, td {{ text-align: right; vertical-align: top }}
th {{ font-weight: normal; color: var(--faint) }}
th:first-child, .good, .bad {{ text-align: left }}
details {{ margin-top: 2rem }}
@media print {{ main {{ max-width: none; padding: 0 }} .wide {{ overflow: visible }} }}"""
