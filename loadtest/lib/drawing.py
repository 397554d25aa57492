"""Pieces of an SVG chart: text, boxes, lines, a legend, and a wrapper: a file of its own, or a figure within a page.

Colours are classes, so that a chart follows the reader's light or dark mode.
"""

from __future__ import annotations

import html
from typing import Iterable

# class: its colour on a light background, and on a dark one
COLOURS = {
    "blue": ("#2f6db3", "#6aa5e8"),
    "orange": ("#d9822b", "#e8a352"),
    "green": ("#3a8f5c", "#58b881"),
    "red": ("#c0392b", "#e0675a"),
    "yellow": ("#d9a441", "#d9ae55"),
    "ink": ("#222222", "#e6e6e6"),
    "faint": ("#555555", "#a8a8a8"),
    "rule": ("#dddddd", "#3d444d"),
    "ground": ("#ffffff", "#0d1117"),
}
FONT = "system-ui, sans-serif"


def rules(dark_where: str = "(prefers-color-scheme: dark)") -> str:
    """The CSS of the classes."""
    light, dark = (
        " ".join(
            f".{name} {{ fill: {pair[shade]} }} .line-{name} {{ stroke: {pair[shade]}; fill: none }}"
            for name, pair in COLOURS.items()
        )
        for shade in (0, 1)
    )
    sizes = "text { font-size: 12px } .faint { font-size: 11px } .title { font-size: 15px; font-weight: 600 }"
    dashed = ".dashed { stroke-dasharray: 4 3 }"
    return f"{sizes} {dashed}\n{light}\n@media {dark_where} {{ {dark} }}"


def page(width: float, height: float, parts: Iterable[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" font-family="{FONT}">\n'
        f"<style>{rules()}</style>\n"
        f'<rect width="100%" height="100%" class="ground"/>\n{body}\n</svg>\n'
    )


def figure(name: str, width: float, height: float, title: str, desc: str, parts: Iterable[str], **data: object) -> str:
    """For a page that has the rules. The name must be unique within the page; the data attributes hold the curve's
    values."""
    body = "\n".join(parts)
    more = "".join(f' data-{key}="{html.escape(str(value))}"' for key, value in data.items())
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-labelledby="{name}-title {name}-desc"'
        f' data-name="{name}"{more}>\n'
        f'<title id="{name}-title">{html.escape(title)}</title><desc id="{name}-desc">{html.escape(desc)}</desc>\n'
        f"{body}\n</svg>\n"
    )


def text(x: float, y: float, words: str, kind: str = "ink", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{html.escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str, radius: float = 2) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:g}" class="{kind}"/>'


def line(points: Iterable[tuple[float, float]], kind: str = "rule", width: float = 1, dashed: bool = False) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    more = " dashed" if dashed else ""
    return f'<polyline points="{path}" class="line-{kind}{more}" stroke-width="{width:g}"/>'


def dot(x: float, y: float, kind: str, radius: float = 3) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="{kind}"/>'


def swatch(x: float, y: float, kind: str, words: str) -> str:
    """One entry of a legend; y is the position of its words."""
    return box(x, y - 10, 12, 12, kind) + text(x + 18, y, words)
