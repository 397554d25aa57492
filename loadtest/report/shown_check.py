"""Checks that the report and the terminal show a rush as the judge has counted it: part of oversell's self-test.

The report is read as a browser without a network would read it. For every fault that a reader could meet there is a
copy of the document with that fault, which must be noticed.
"""

from __future__ import annotations

import io
import itertools
import re
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from typing import Iterable

from report import report, watch
from report.readings import ANSWERS, STARTED, WAITS, Page, page_of, percentile
from report.report import Rush
from report.sampler import Instance, Tick

VOID = {"meta", "br", "hr", "img", "link", "input", "base", "rect", "polyline", "circle"}  # the SVG ones end in "/>"
LEADING = {"src", "href", "srcset", "data", "action", "formaction", "poster", "background", "cite", "xlink:href"}
LOADING = {"script", "link", "iframe", "object", "embed", "img", "image", "use", "base", "video", "audio", "form"}
DRAWN_SHARE = 0.03  # allowed difference of an area: places are drawn to a tenth of a pixel
DRAWN_PX = 0.06
STORES = {"redis": "blue", "postgres": "orange"}
COLUMNS = (20, 40, 80, 200)


def check(rushes: Iterable[Rush]) -> bool:
    """Takes the same rush with different findings. Prints what is wrong, and returns whether nothing is."""
    rushes = list(rushes)
    wrong = [f"report, {verdict_of(rush)}: {fault}" for rush in rushes for fault in faults(report.render(rush), rush)]
    clean, broken = rushes[0], next(rush for rush in rushes if rush.broken)
    controls = spoiled(clean, broken)
    missed = [what for what, rush, document in controls if not faults(document, rush)]
    wrong += [f"report, MISSED: {what}" for what in missed]
    wrong += sampler_faults() + view_faults(clean.ticks, clean.units)
    good = f"{len(rushes)} reports and the terminal show what was counted; {len(controls)} spoiled ones caught"
    print("\n".join(wrong) or good)
    return not wrong


def verdict_of(rush: Rush) -> str:
    return ", ".join(finding.name for finding in rush.broken) or "balanced"


# ---- the report ----


@dataclass
class Drawing:
    attributes: dict[str, str]
    curves: list[tuple[str, list[tuple[float, float]]]] = field(default_factory=list)  # colour and places
    told: dict[str, str] = field(default_factory=dict)  # title and desc: id -> words

    def area(self) -> float:
        """The area under its curves, in the units that they count."""
        across, up, floor = (float(self.attributes[f"data-{name}"]) for name in ("across", "up", "floor"))
        between = (pair for _, curve in self.curves for pair in zip(curve, curve[1:]))
        return sum((x2 - x1) / across * (2 * floor - y1 - y2) / 2 / up for (x1, y1), (x2, y2) in between)

    def last(self, colour: str) -> float:
        """The value at the end of the curve of that colour; infinite if there is none."""
        ends = [places[-1][1] for of_curve, places in self.curves if of_curve == colour]
        floor = float(self.attributes["data-floor"])
        return (floor - ends[-1]) / float(self.attributes["data-up"]) if ends else float("inf")


class Document(HTMLParser):
    """The parts of the document that the checks need."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []
        self.drawings: list[Drawing] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.verdict = ("", "")  # its classes and words
        self.in_verdict = False
        self.style = ""
        self.words, self.id, self.table = "", "", ""
        self.feed(text)
        self.close()
        if self.open:
            self.faults.append(f"not closed: {' '.join(self.open)}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        self.check_outside(tag, told)
        if tag not in VOID:
            self.open.append(tag)
        self.words, self.id, classes = "", told.get("id", ""), told.get("class", "").split()
        if tag == "svg":
            self.drawings.append(Drawing(told))
        elif tag == "polyline" and "curve" in classes:
            points = (place.split(",") for place in told["points"].split())
            places = [(float(x), float(y)) for x, y in points]
            self.drawings[-1].curves.append((classes[0].removeprefix("line-"), places))
        elif tag == "table":
            self.table = self.id
            self.tables[self.table] = []
        elif tag == "tr":
            self.tables[self.table].append([])
        elif "verdict" in classes:
            self.in_verdict, self.verdict = True, (told["class"], "")

    def check_outside(self, tag: str, told: dict[str, str]) -> None:
        leads = [name for name, value in told.items() if name in LEADING or name.startswith("on") or "//" in value]
        if tag in LOADING or leads:
            self.faults.append(f"an outside reference: {tag} {' '.join(leads)}")

    def handle_data(self, data: str) -> None:
        self.words += data
        if self.in_verdict:
            self.verdict = self.verdict[0], self.verdict[1] + data

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> closes nothing")
        if tag in ("title", "desc") and self.open[-1:] == ["svg"]:
            self.drawings[-1].told[self.id] = self.words.strip()
        elif tag in ("td", "th"):
            self.tables[self.table][-1].append(self.words)
        elif tag == "style":
            self.style += self.words
        elif tag == "p":
            self.in_verdict = False


def faults(text: str, rush: Rush) -> list[str]:
    document = Document(text)
    found = document.faults + drawing_faults(document) + verdict_faults(document, rush)
    if "url(" in document.style or "@import" in document.style or "://" in text:
        found.append("an outside reference in its text or its style")
    if "default-src 'none'" not in text:
        found.append("no policy that forbids what is outside")
    return found + curve_faults(document, rush) + sum_faults(document, rush)


def drawing_faults(document: Document) -> list[str]:
    found = [] if document.drawings else ["no drawing"]
    for drawing in document.drawings:
        named = drawing.attributes.get("aria-labelledby", "").split()
        if len(named) != 2 or not all(drawing.told.get(name) for name in named):
            found.append(f"{drawing.attributes.get('data-name')}: no title or no desc")
    names = [name for drawing in document.drawings for name in drawing.told]
    return found + ([] if len(set(names)) == len(names) else ["two of one name"])


def verdict_faults(document: Document, rush: Rush) -> list[str]:
    classes, words = document.verdict
    told = [row for row in document.tables.get("findings", []) if row and row[-1].startswith("WRONG")]
    found = []
    if [row[0] for row in told] != [finding.name for finding in rush.broken]:
        found.append(f"other findings than the judge's: {told}")
    if not rush.broken:
        balanced = words == report.BALANCED and "good" in classes
        return found if balanced else found + ["does not say that the books balance"]
    if not words.startswith(report.BROKEN) or any(finding.name not in words for finding in rush.broken):
        found.append("does not say what is broken")
    red, green, blue = bytes.fromhex(report.VERDICTS["bad"][0][1:])
    if "bad" not in classes or ".bad { color: var(--bad) }" not in document.style or red < 2 * max(green, blue):
        found.append("does not say it in red")
    return found


def curve_faults(document: Document, rush: Rush) -> list[str]:
    """The curves must match the judge's count."""
    drawn = {drawing.attributes.get("data-name"): drawing for drawing in document.drawings}
    counted = {f"answers-{kind}": (rush.load.answers[kind], rush.connections) for kind in ("placed", "sold_out")}
    counted["committed"] = rush.orders, 0
    found = []
    for name, (count, unread) in counted.items():
        area = drawn[name].area() if name in drawn else -1
        if not count * (1 - DRAWN_SHARE) - 1 <= area <= (count + unread) * (1 + DRAWN_SHARE) + 1:
            found.append(f"{name}: drawn are {area:,.0f}, counted {count:,}")
    if "left" not in drawn:
        return found + ["no curve of the units left"]
    for store, colour in STORES.items():
        left, ends_at = rush.left[store], drawn["left"].last(colour)
        if left is not None and abs(ends_at - left) > DRAWN_PX / float(drawn["left"].attributes["data-up"]):
            found.append(f"left in {store}: drawn are {ends_at:,.1f}, counted {left:,}")
    return found


def sum_faults(document: Document, rush: Rush) -> list[str]:
    """Exact: the samples' last row, and the table that compares it with the judge."""
    rows = {row[0]: row[1:] for row in document.tables.get("sums", [])}
    head, *_, last = document.tables.get("samples", [[], []])
    sampled = dict(zip(head, last))
    found = [f"{name}: {row}" for name, row in rows.items() if row[-1] == "DIFFER"]
    counted = {
        "answers: won (201)": ("won (201)", rush.load.answers["placed"]),
        "orders committed": ("committed", rush.orders),
        "units left in Redis": ("left, Redis", rush.left["redis"]),
    }
    for name, (column, count) in counted.items():
        if rows.get(name, ["", ""])[:2] != [sampled.get(column), report.known(count)]:
            found.append(f"{name}: {rows.get(name)}, in the samples {sampled.get(column)}, counted {count}")
    return found


def spoiled(clean: Rush, broken: Rush) -> list[tuple[str, Rush, str]]:
    """Documents with one fault each, and the rush that each claims to show."""
    text, broken_text = report.render(clean), report.render(broken)

    def change(pattern: str, to: str, base: str = text) -> str:
        changed = re.sub(pattern, to, base, count=1, flags=re.DOTALL)
        assert changed != base, pattern
        return changed

    within_row = "(?:(?!<tr>).)*"
    last_row = f"(<tr>{within_row}?</th>(?:<td>[^<]*</td>){{2}}<td>)([^<]*</td>{within_row}</table></div></details>)"
    doubled = replace(clean.load, answers=clean.load.answers | {"placed": 2 * clean.load.answers["placed"]})
    return [
        ("a picture from outside", clean, change("</h1>", '</h1><img src="https://example.com/x.png">')),
        ("a style from outside", clean, change("<style>", "<style>@import 'x.css';")),
        ("a script", clean, change("</main>", "<script>1</script></main>")),
        ("a drawing without a desc", clean, change("<desc.*?</desc>", "")),
        ("a drawing without a title", clean, change("(<svg[^>]*>\\s*)<title.*?</title>", r"\1")),
        ("a curve on another scale", clean, change('(data-name="committed"[^>]*data-up=")', r"\g<1>9")),
        ("a curve that is not there", clean, change('<polyline[^>]* curve"[^>]*>', "")),
        ("a sum that differs", clean, change('(id="sums".*?)agree', r"\1DIFFER")),
        ("another number in the samples", clean, change(last_row, r"\g<1>7\2")),
        ("another count than the judge's", replace(clean, load=doubled), text),
        ("other rows than the judge's", replace(clean, orders=clean.orders + 1), text),
        ("an element that is not closed", clean, change("</section>", "")),
        ("no policy", clean, change("<meta http-equiv[^>]*>", "")),
        ("a broken promise that is not told", broken, text),
        ("a broken promise in green", broken, change('verdict bad"', 'verdict good"', broken_text)),
        ("a broken promise that is not named", broken, change("</strong>[^<]*", "</strong>", broken_text)),
        ("a promise that is not broken", clean, broken_text),
    ]


# ---- what is read of the service ----


def sampler_faults() -> list[str]:
    """Pages that a service could return: an instance restarts, and its counts continue."""
    pages = [sampler_page(started, count) for started, count in (("1.0", 10), ("1.0", 15), ("2.0", 3), ("2.0", 4))]
    instance, seen = Instance(pages[0]), []
    for page in pages:
        instance.note(page)
        seen.append(instance.counts["answers", "placed"])
    median = percentile(pages[0].counts, "waits", 0.5)
    found = [] if seen == [0, 5, 8, 9] else [f"sampler: counts 0, 5, 8, 9 of an instance as {seen}"]
    return found if median == 1.5 else found + [f"sampler: half of what took 1 to 2 ms took more than {median} ms"]


def sampler_page(started: str, count: int) -> Page:
    lines = [
        f'{ANSWERS},status="201",code="PLACED"}} {count}',
        f'{WAITS},le="0.001"}} 0',
        f'{WAITS},le="0.002"}} {count}',
        f'{WAITS},le="+Inf"}} {count}',
        f"{STARTED} {started}",
    ]
    return page_of("\n".join(lines))


# ---- the terminal ----


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def view_faults(ticks: list[Tick], units: int) -> list[str]:
    found = []
    for columns, colour in itertools.product(COLUMNS, (False, True)):
        lines = frame(ticks, units, columns, colour)
        if any(len(re.sub("\x1b\\[[0-9;]*m", "", line)) >= columns for line in lines):
            found.append(f"terminal: a line is wider than {columns} columns")
        if any("\x1b" in line for line in lines) != colour:
            found.append(f"terminal: colours {'missing' if colour else 'unasked'} at {columns} columns")
    whole = "\n".join(frame(ticks, units, COLUMNS[-1], False))
    last = ticks[-1]
    for number in (last.in_redis, last.counts["answers", "placed"], last.counts["answers", "sold_out"]):
        if f"{number:,}" not in whole:
            found.append(f"terminal: does not show {number:,}")
    if not any(len(line) == COLUMNS[0] - 1 for line in frame(ticks, units, COLUMNS[0], False)):
        found.append("terminal: nothing was cut, so nothing is shown of cutting")
    return found + stream_faults(ticks, units)


def frame(ticks: list[Tick], units: int, columns: int, colour: bool) -> list[str]:
    screen = watch.Screen(columns, 24, True, colour, True)
    return [watch.render(line, screen) for line in watch.frame(ticks, units, 1, screen)]


def stream_faults(ticks: list[Tick], units: int) -> list[str]:
    """Checks the output to a file and to a terminal."""
    file, found = io.StringIO(), []
    view = watch.View(units, 1, file)
    for upto in range(2, len(ticks) + 1):
        view.show(ticks[:upto])
    if "\x1b" in file.getvalue() or len(file.getvalue().splitlines()) > ticks[-1].at_s:
        found.append("terminal: a file gets escapes, or more than a line a second")
    terminal = Terminal()
    view = watch.View(units, 1, terminal)
    view.redraw(["a", "b"])
    view.redraw(["c"])
    if "\x1b[2A" not in terminal.getvalue() or not terminal.getvalue().endswith("c\x1b[K\n\x1b[J"):
        found.append("terminal: does not redraw in place")
    return found
