"""How a transcript writes times, ids, values, and what a step has changed."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone

START_MS = 2_000_000_000_123  # T: when each case begins
UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
NEAR_MS = 3 * 365 * UNITS["d"]
SOME, LONG = 16, 400  # parts, and characters of a text: what is longer is shortened
AT = r"T(?:([+-]\d+)(ms|s|m|h|d))?\b"


class Failed(Exception):
    """The transcript cannot go on."""


# ---- names of times and ids ----


def moment(sign: str | None, unit: str | None) -> int:
    return START_MS + (int(sign) * UNITS[unit] if sign else 0)


def uuid(tail: str, at_ms: int | None) -> str:
    time_part = "%012x" % (at_ms or 0)
    return f"{time_part[:8]}-{time_part[8:]}-7000-8000-{tail:0>12}"


def spell(text: str) -> str:
    """What stands for a time or an id becomes it: T-1h, #1, #1@T-1h."""
    text = re.sub(rf"#([0-9a-f]+)(?:@{AT})?(?![\w@])", lambda m: uuid(m[1], moment(m[2], m[3]) if "@" in m[0] else None), text)
    return re.sub(rf"(?<![\w'-]){AT}", lambda m: str(moment(m[1], m[2])), text)


def name_of(ms: float) -> str:
    apart = ms - START_MS
    if apart == 0:
        return "T"
    unit = next((unit for unit in ("d", "h", "m", "s") if apart % UNITS[unit] == 0), "ms")
    return f"T{apart / UNITS[unit]:+g}{unit}" if apart % 1 else f"T{int(apart) // UNITS[unit]:+d}{unit}"


def name_number(match: re.Match) -> str:
    return name_of(int(match[0])) if abs(int(match[0]) - START_MS) < NEAR_MS else match[0]


def name_stamp(match: re.Match) -> str:
    try:
        at = datetime.fromisoformat(re.sub(r"Z$|\+00$", "+00:00", match[0]))
    except ValueError:
        return match[0]
    ms = (at - datetime(1970, 1, 1, tzinfo=timezone.utc)) / timedelta(milliseconds=1)
    return name_of(ms) if abs(ms - START_MS) < NEAR_MS else match[0]


def name_id(match: re.Match) -> str:
    if match[3] != "-7000-8000-":
        return "<uuid>"
    at_ms = int(match[1] + match[2], 16)
    return f"#{match[4].lstrip('0')}" + (f"@{name_of(at_ms)}" if at_ms else "") if match[4].strip("0") else "#0"


def mask(text: str) -> str:
    text = re.sub(r"\b([0-9a-f]{8})-([0-9a-f]{4})(-[0-9a-f]{4}-[0-9a-f]{4}-)([0-9a-f]{12})\b", name_id, text)
    text = re.sub(r"\\x[0-9a-f]{64}\b", "<sha256>", text)
    text = re.sub(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00(?::00)?)", name_stamp, text)
    return re.sub(r"\b\d{13}\b", name_number, text).replace("seckill:{1}:", "").replace("seckill:{shared}:", "")


# ---- what a step changes ----

State = dict  # the name of a record: its fields


def shorten(text: str) -> str:
    return text if len(text) <= LONG else f"{text[:80]}({len(text) - 120} more){text[-40:]}"


def value(text) -> str:
    if text is None:
        return "nil"
    if isinstance(text, (dict, list, bool)):
        text = json.dumps(text, ensure_ascii=False)
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))
    text = shorten(re.sub(r"(\w)\1{59,}", lambda m: f"{m[1]}*{len(m[0])}", text))
    return f"'{text}'" if text == "" or " " in text else text


def few(parts: list[str]) -> list[str]:
    return parts if len(parts) <= SOME else [*parts[:8], f"({len(parts) - 9} more)", parts[-1]]


def changed(old: dict, new: dict, usual: dict) -> str:
    """Of a new record without what is usual. Redis keeps a large hash in no order."""
    if len(old) + len(new) > SOME:
        old, new = dict(sorted(old.items())), dict(sorted(new.items()))
    parts = [f"{field}={value(new[field])}" for field in new if field not in old and new[field] != usual.get(field)]
    parts += [f"{field} {value(old[field])}->{value(new[field])}" for field in new if field in old and old[field] != new[field]]
    parts += [f"{field} gone" for field in old if field not in new]
    return " ".join(few(parts))


def difference(before: State, after: State, usual: dict[str, dict]) -> list[str]:
    lines = []
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            lines.append(f"  + {name}: {changed({}, after[name], usual.get(name.split()[0], {}))}".rstrip(": "))
        elif name not in after:
            lines.append(f"  - {name}")
        elif before[name] != after[name]:
            lines.append(f"  ~ {name}: {changed(before[name], after[name], {})}")
    return lines if len(lines) <= SOME else [*lines[:2], f"  ({len(lines) - 3} more)", lines[-1]]
