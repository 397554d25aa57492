"""The rush in the terminal while it runs: redrawn in place on a terminal, else a line a second. Before it, the pages'
addresses and a countdown, so that the pages can be opened.

Colours only on a terminal, and not with NO_COLOR in the environment (no-color.org).
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TextIO

from lib.common import ROOT, environment
from report.readings import SHOWN, percentile
from report.sampler import Tick, last_second, steps

PAGES = {"shop": "/", "dashboard": "/admin/ui"}
ASK_S = 3
LINE_S = 1.0  # between two lines where nothing is redrawn
NAME_WIDTH, RATES_MAX = 16, 40
BAR_LEAST, STOCK_BAR_MOST, KIND_BAR_MOST = 6, 60, 24  # columns; a shorter bar shows nothing
ALWAYS = ("placed", "sold_out")  # have a line even if there were none
COLOURS = {"blue": 34, "green": 32, "red": 31, "faint": 2, "bold": 1}
KIND_COLOURS = {"placed": "green", "accepted": "green", "limited": "red", "other": "red"}
FULL, PARTS, BARS = "█", " ▏▎▍▌▋▊▉", "▁▂▃▄▅▆▇█"

Span = tuple[str, str]  # text and its colour; "" is none


@dataclass(frozen=True)
class Screen:
    """What the terminal can do."""

    columns: int
    rows: int
    in_place: bool
    colour: bool
    blocks: bool  # else only ASCII

    @classmethod
    def of(cls, out: TextIO) -> Screen:
        size = shutil.get_terminal_size()
        in_place = out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        blocks = (out.encoding or "").lower().replace("-", "") == "utf8"
        colour = in_place and not os.environ.get("NO_COLOR")
        return cls(size.columns, size.lines, in_place, colour, blocks)


# ---- before the rush ----


def invite(addresses: dict[str, str], shown: str, opens_at: float, out: TextIO = sys.stdout) -> None:
    """Prints the pages' addresses, and waits until the sale opens, by time.monotonic(). `shown` is where a browser finds
    the pages, if not at these addresses."""
    pages = [name for name, path in PAGES.items() if is_there(addresses[name] + path)]
    for name in pages:
        print(f"{name:<12}{shown or addresses[name]}{PAGES[name]}", file=out)
    if pages:
        print(f"admin token {token_place()}", file=out)
    else:
        print("this service shows no pages (SECKILL_PAGES)", file=out)
    count_down(opens_at, Screen.of(out), out)


def is_there(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=ASK_S) as answer:
            return answer.status == 200
    except (OSError, urllib.error.HTTPError):
        return False


def token_place() -> str:
    """Where the token is: the token itself must not appear on a terminal that others may see."""
    line, file = f"SECKILL_ADMIN_TOKEN={environment()['SECKILL_ADMIN_TOKEN']}", ROOT / ".dev" / "env"
    kept = file.exists() and line in file.read_text().splitlines()
    return f"SECKILL_ADMIN_TOKEN in {'.dev/env' if kept else 'the environment'}"


def count_down(opens_at: float, screen: Screen, out: TextIO) -> None:
    if not screen.in_place and opens_at > time.monotonic():
        print(f"the sale opens in {opens_at - time.monotonic():.0f} s", file=out, flush=True)
    while (left := opens_at - time.monotonic()) > 0:
        if screen.in_place:
            print(f"\rthe sale opens in {math.ceil(left)} s \x1b[K", end="", file=out, flush=True)
        time.sleep(left % 1 or 1.0)
    if screen.in_place:
        print("\r\x1b[K", end="", file=out, flush=True)


# ---- while it is on ----


class View:
    """Shows the ticks of a sampler, on its thread."""

    def __init__(self, units: int, seconds: int, out: TextIO = sys.stdout):
        self.units, self.seconds, self.out = units, seconds, out
        self.drawn = 0  # lines on the screen
        self.shown_s = 0.0

    def show(self, ticks: list[Tick]) -> None:
        screen = Screen.of(self.out)
        if screen.in_place:
            lines = frame(ticks, self.units, self.seconds, screen)[: screen.rows - 1]
            self.redraw([render(line, screen) for line in lines])
        elif ticks[-1].at_s >= self.shown_s + LINE_S:
            self.shown_s = ticks[-1].at_s
            print(summary(ticks, self.units), file=self.out, flush=True)

    def redraw(self, lines: list[str]) -> None:
        """In one write, so that no partial frame is visible. The cursor stays below."""
        up = f"\x1b[{self.drawn}A" if self.drawn else ""
        self.out.write(up + "".join(f"\r{line}\x1b[K\n" for line in lines) + "\x1b[J")
        self.out.flush()
        self.drawn = len(lines)


def frame(ticks: list[Tick], units: int, seconds: int, screen: Screen) -> list[list[Span]]:
    """The lines of the view; the caller cuts them to the width."""
    last, now = ticks[-1], last_second(ticks)
    kinds = [kind for kind in SHOWN if kind in ALWAYS or last.counts["answers", kind]]
    answers = {kind: now.rate("answers", kind) for kind in kinds}
    most = max([1.0, *answers.values()])
    p50, p99 = (words_of_ms(percentile(now.counts, "waits", share)) for share in (0.5, 0.99))
    state = f"{last.at_s:.1f} s of {seconds}" if last.at_s <= seconds else f"{last.at_s:.1f} s, the crowd has gone"
    return [
        [("the rush".ljust(NAME_WIDTH), "bold"), (state, "")],
        stock_line(last, units, screen),
        [name("sold"), (f"{units_of(sold(last, units)):>10}", ""), (f"  {committed(last):,} committed", "faint")],
        [name("p50 / p99"), (f"{p50:>10} / {p99}", "")],
        rate_line(ticks, sum(answers.values()), screen),
        *(kind_line(kind, last, rate, most, screen) for kind, rate in answers.items()),
    ]


def stock_line(last: Tick, units: int, screen: Screen) -> list[Span]:
    words = f"  {units_of(last.in_redis)} of {units:,} left"
    width = bar_width(len(words), STOCK_BAR_MOST, screen)
    full = bar((last.in_redis or 0) / max(1, units), width, screen)
    return [name("stock"), (full, "blue"), (rest(width - len(full), screen), "faint"), (words, "")]


def rate_line(ticks: list[Tick], rate: float, screen: Screen) -> list[Span]:
    words = f"{rate:>10,.0f}/s  "
    room = bar_width(len(words), RATES_MAX, screen)
    rates = [sum(part.rate("answers", kind) for kind in SHOWN) for part in steps(ticks[-room - 1 :])] if room else []
    return [name("answers"), (words, ""), (course(rates, screen), "blue")]


def kind_line(kind: str, last: Tick, rate: float, most: float, screen: Screen) -> list[Span]:
    colour = KIND_COLOURS.get(kind, "")
    words = f"{last.counts['answers', kind]:>10,}{rate:>10,.0f}/s  "
    width = bar_width(len(words), KIND_BAR_MOST, screen)
    return [name(SHOWN[kind]), (words, ""), (bar(rate / most, width, screen), colour)]


def summary(ticks: list[Tick], units: int) -> str:
    last, now = ticks[-1], last_second(ticks)
    rate = sum(now.rate("answers", kind) for kind in SHOWN)
    p99 = words_of_ms(percentile(now.counts, "waits", 0.99))
    kinds = (kind for kind in SHOWN if kind in ALWAYS or last.counts["answers", kind])
    counts = ", ".join(f"{SHOWN[kind]} {last.counts['answers', kind]:,}" for kind in kinds)
    left = f"{units_of(last.in_redis)} of {units:,} left"
    return f"{last.at_s:6.1f} s  {left}, {committed(last):,} committed, {rate:,.0f} answers/s, p99 {p99}; {counts}"


# ---- words and bars ----


def name(words: str) -> Span:
    return words.ljust(NAME_WIDTH), "faint"


def sold(last: Tick, units: int) -> int | None:
    return None if last.in_redis is None else units - last.in_redis


def committed(last: Tick) -> int:
    return last.counts["committed", ""]


def units_of(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def words_of_ms(ms: float | None) -> str:
    return "-" if ms is None else f"{ms:.1f} ms"


def bar_width(taken: int, most: int, screen: Screen) -> int:
    """The columns left for a bar after its name and its words."""
    room = min(most, screen.columns - 1 - NAME_WIDTH - taken)
    return room if room >= BAR_LEAST else 0


def bar(share: float, width: int, screen: Screen) -> str:
    eighths = round(min(1.0, max(0.0, share)) * width * 8)
    if not screen.blocks:
        return "#" * (eighths // 8)
    return FULL * (eighths // 8) + (PARTS[eighths % 8] if eighths % 8 else "")


def rest(width: int, screen: Screen) -> str:
    return ("░" if screen.blocks else ".") * width


def course(rates: list[float], screen: Screen) -> str:
    """A column for each of the last intervals."""
    if not screen.blocks:
        return ""
    most = max([1.0, *rates])
    return "".join(BARS[min(len(BARS) - 1, int(rate / most * len(BARS)))] for rate in rates)


def render(line: list[Span], screen: Screen) -> str:
    """Cuts the line so that it does not wrap. The last column stays free, because some terminals wrap at it."""
    room, parts = screen.columns - 1, []
    for words, colour in line:
        shown, room = words[:room], room - len(words[:room])
        coloured = screen.colour and colour and shown.strip()
        parts.append(f"\x1b[{COLOURS[colour]}m{shown}\x1b[0m" if coloured else shown)
    return "".join(parts)
