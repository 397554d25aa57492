"""The results of the scaling tables, and their limits."""

from __future__ import annotations

from lib.figures import Contender, contender_figures, show_settings, spread, without_client
from scaling.points import Dimension

CPU_MORE = 1.3  # CPU of an order at 4,096 connections, relative to 1,024
RESIDENT_BYTES = 20e6  # of one reactor at 4,096 connections, in addition to
CONNECTION_BYTES = 10e3
BUYER_BYTES = 125  # of Redis's memory, at 1,000,000 buyers
JOURNAL_BYTES = 16e3  # of an empty journal


def table_of(dimension: Dimension, contenders: list[Contender]) -> dict[str, object]:
    rows = [{"value": value} | contender_figures(one) for value, one in zip(dimension.values, contenders)]
    return {"name": dimension.name, "title": dimension.title, "rows": rows}


def cpu_ms(row: dict) -> float:
    """CPU of service, Redis and PostgreSQL for 1,000 answers."""
    return without_client(row["cpu_s_per_1000"]) * 1000


# ---- bounds ----


def bounds_of(tables: list[dict]) -> list[dict[str, object]]:
    """Only for points that were measured."""
    rows = {(table["name"], row["value"]): row for table in tables for row in table["rows"]}
    fewer, more = rows.get(("connections", 1024)), rows.get(("connections", 4096))
    full = rows.get(("buyers", 1_000_000))
    bounds = []
    if fewer and more:
        name = "CPU of an order, at 4,096 connections to 1,024"
        bounds.append(bound(name, cpu_ms(more) / cpu_ms(fewer), CPU_MORE))
        name = "MB resident at 4,096 connections"
        bounds.append(bound(name, more["server_bytes"] / 1e6, (RESIDENT_BYTES + CONNECTION_BYTES * 4096) / 1e6))
    if full:
        bounds.append(bound("bytes of Redis for a buyer, of 1,000,000", full["redis_buyer_bytes"], BUYER_BYTES))
        bounds.append(bound("bytes of the journal afterwards", full["journal_bytes"], JOURNAL_BYTES))
    return bounds


def bound(name: str, figure: float, limit: float) -> dict[str, object]:
    return {"name": name, "figure": round(figure, 3), "at_most": limit, "met": figure <= limit}


# ---- the tables ----


def show(result: dict) -> None:
    show_settings(result["settings"])
    for table in result["tables"]:
        show_table(table)
    if result["bounds"]:
        print(f"\n{'bounds':<48}{'figure':>11}{'at most':>11}")
    for one in result["bounds"]:
        verdict = "met" if one["met"] else "MISSED"
        print(f"{one['name']:<48}{one['figure']:>11,.2f}{one['at_most']:>11,.2f}  {verdict}")


def show_table(table: dict) -> None:
    print(f"\n{table['title']:<30}{'':>37}CPU ms for 1,000 answers")
    heads = f"{'':<10}{'answers/s':>10}{'(min - max)':>18}{'p50 ms':>9}{'p99 ms':>9}"
    heads += f"{'service':>10}{'redis':>8}{'postgres':>10}{'sum':>8}{'client':>9}{'service MB':>12}"
    print(heads + (f"{'bytes a buyer':>22}" if "buyer_bytes" in table["rows"][0] else ""))
    for row in table["rows"]:
        cpu = {process: seconds * 1000 for process, seconds in row["cpu_s_per_1000"].items()}
        cells = f"{row['value']:<10,}{row['rps_median']:>10,.0f}{spread(row):>18}{row['p50_ms']:>9.1f}{row['p99_ms']:>9.1f}"
        cells += f"{cpu['server']:>10.1f}{cpu['redis']:>8.1f}{cpu['postgres']:>10.1f}{cpu_ms(row):>8.1f}"
        cells += f"{cpu['client']:>9.1f}{row['server_bytes'] / 1e6:>12.1f}"
        if "buyer_bytes" in row:
            cells += f"{row['buyer_bytes']:>8.0f} hash,{row['redis_buyer_bytes']:>4.0f} all"
        print(cells)
