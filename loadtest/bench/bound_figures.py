"""The results of the bounds' rounds, and how they are shown."""

from __future__ import annotations

import statistics

from bench.bounds import Bound


def bound_results(bounds: list[Bound]) -> list[dict[str, object]]:
    return [bound_result(bound) for bound in bounds]


def bound_result(bound: Bound) -> dict[str, object]:
    """Without `met` if nothing was measured."""
    result = {"name": bound.name, "what": bound.what, "limit": bound.limit, "unit": bound.unit}
    figures = [outcome.figure for outcome in bound.outcomes]
    wrong = bound.failure or next((outcome.wrong for outcome in bound.outcomes if outcome.wrong), "")
    if figures:
        median = statistics.median(figures)
        result |= {"figure": median, "figures": figures, "met": bound.holds(median) and not wrong}
        result |= {"told": bound.outcomes[-1].told, "rounds": [outcome.details for outcome in bound.outcomes]}
    if wrong:
        result |= {"met": False, "wrong": wrong}
    return result


def show_bounds(results: list[dict]) -> None:
    print(f"\n{'bounds':<17}{'figure':>9}{'(min - max)':>20}  limit")
    for one in results:
        figure, between, verdict = "-", "", "not measured"
        if "figure" in one:
            figure, between = f"{one['figure']:.2f}", f"({min(one['figures']):.2f} - {max(one['figures']):.2f})"
        if "met" in one:
            verdict = "MET" if one["met"] else "MISSED"
        print(f"{one['name']:<17}{figure:>9}{between:>20}  {one['limit']:<15} {one['unit']:<10} {verdict}")
    for one in results:
        print(f"\n{one['name']}: {one['what']}")
        if "told" in one:
            print("  " + one["told"].replace("\n", "\n  "))
        if "wrong" in one:
            print(f"  WRONG: {one['wrong']}")
