"""The results of the benchmark's samples, and how they are shown."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import Callable, Iterable

from lib.rounds import Sample

PROCESSES = ("server", "redis", "postgres", "client")
STORES_AND_SERVICE = ("server", "redis", "postgres")  # without the client, which is wrk
KEPT = 0.98  # at least this share of another commit's rate, by the interval's upper end
WANTED = {
    "sold_out_vs_ceiling": 0.95,
    "respond_async_vs_webdis": 1.6,
    "respond_async_vs_nginx_lua": 3.0,
    "durable_vs_go": 15,
    "durable_vs_node": 15,
}
WANTED_BY_FSYNC = {  # depend on Redis's appendfsync
    "always": {"durable_vs_ceiling": 0.3, "respond_async_vs_ceiling": 0.5},
    "everysec": {"durable_vs_ceiling": 0.42, "respond_async_vs_ceiling": 0.68},
}
BASES = ("ceiling", "h2o", "webdis", "nginx_lua", "go", "go_batch", "node")  # the others are compared with these


@dataclass
class Contender:
    name: str
    what: str
    measure: Callable[[int], Sample]
    samples: list[Sample] = field(default_factory=list)

    def median(self, figure: Callable[[Sample], float | None]) -> float | None:
        values = [value for value in map(figure, self.samples) if value is not None]
        return statistics.median(values) if values else None


# ---- contenders ----


def find_ratios(contenders: list[Contender]) -> dict[str, float]:
    rates = {contender.name: contender.median(lambda sample: sample.rps) for contender in contenders}
    return {
        f"{name}_vs_{base}": rate / rates[base]
        for base in BASES
        for name, rate in rates.items()
        if base in rates and name != base
    }


def find_verdicts(ratios: dict[str, float], appendfsync: str) -> dict[str, dict[str, object]]:
    wanted = WANTED_BY_FSYNC.get(appendfsync, {}) | WANTED
    return {
        name: {"ratio": round(ratios[name], 3), "at_least": bound, "met": ratios[name] >= bound}
        for name, bound in wanted.items()
        if name in ratios
    }


def contender_figures(contender: Contender) -> dict[str, object]:
    rates = [sample.rps for sample in contender.samples]
    processes = contender.samples[0].cpu
    figures = {
        "rps_median": statistics.median(rates),
        "rps_min": min(rates),
        "rps_max": max(rates),
        "p50_ms": contender.median(lambda sample: sample.p50_ms),
        "p99_ms": contender.median(lambda sample: sample.p99_ms),
        "refused": contender.median(lambda sample: sample.refused),
        "committed_rps": contender.median(lambda sample: sample.committed_rps),
        "server_bytes": contender.median(lambda sample: sample.server_bytes),
        "buyer_bytes": contender.median(lambda sample: sample.buyer_bytes),
        "redis_buyer_bytes": contender.median(lambda sample: sample.redis_buyer_bytes),
        "journal_bytes": contender.median(lambda sample: sample.journal_bytes),
    }
    figures |= {name: contender.median(lambda sample: sample.more[name]) for name in contender.samples[0].more}
    cpu = {process: contender.median(lambda sample: sample.cpu[process]) for process in processes}
    return (
        {"name": contender.name, "what": contender.what}
        | {name: round(value, 3) for name, value in figures.items() if value is not None}
        | {"cpu_s_per_1000": {process: round(seconds, 5) for process, seconds in cpu.items()}, "rps": rates}
    )


def contender_results(contenders: list[Contender], appendfsync: str) -> dict[str, object]:
    ratios = find_ratios(contenders)
    return {
        "contenders": [contender_figures(contender) for contender in contenders],
        "ratios": {name: round(ratio, 3) for name, ratio in ratios.items()},
        "wanted": find_verdicts(ratios, appendfsync),
    }


def show_settings(settings: dict[str, object]) -> None:
    print("\n" + ", ".join(f"{name} {value}" for name, value in settings.items()))


def show_contenders(result: dict) -> None:
    contenders = result["contenders"]
    show_rates(contenders)
    for name, lacks in result["not_run"].items():
        print(f"{name:<17}   not run: {lacks} is not here; ./dev setup bench")
    show_cpu((one["name"], one["cpu_s_per_1000"]) for one in contenders)
    for one in contenders:
        if "server_bytes" in one:
            print(
                f"\n{one['name']}: service {one['server_bytes'] / 1e6:.1f} MB resident; a buyer takes "
                f"{one['buyer_bytes']:.0f} bytes in the hash, {one['redis_buyer_bytes']:.0f} of Redis's memory",
                end="",
            )
    show_ratios(contenders, result["ratios"])
    print("\nwanted")
    for name, one in result["wanted"].items():
        print(f"{name:<30}{one['ratio']:>7.2f}  at least {one['at_least']:<5} {'met' if one['met'] else 'MISSED'}")


def show_rates(contenders: list[dict]) -> None:
    print(f"\n{'':<17}{'answers/s':>10}{'(min - max)':>20}{'p50 ms':>9}{'p99 ms':>9}{'refused':>9}{'commits/s':>11}")
    for one in contenders:
        committed = f"{one['committed_rps']:,.0f}" if "committed_rps" in one else "-"
        print(
            f"{one['name']:<17}{one['rps_median']:>10,.0f}{spread(one):>20}{one['p50_ms']:>9.2f}{one['p99_ms']:>9.2f}"
            f"{one['refused']:>9,.0f}{committed:>11}"
        )


def without_client(cpu: dict[str, float]) -> float:
    """The CPU cost of service, Redis and PostgreSQL together."""
    return sum(cpu.get(process, 0) for process in STORES_AND_SERVICE)


def spread(one: dict) -> str:
    """The range of the rounds' rates."""
    return f"({one['rps_min']:,.0f} - {one['rps_max']:,.0f})"


def show_cpu(rows: Iterable[tuple[str, dict[str, float]]]) -> None:
    print("\nCPU ms for 1,000 answers")
    print(f"{'':<17}" + "".join(f"{name:>10}" for name in (*PROCESSES, "no client")))
    for name, cpu in rows:
        cells = [*map(cpu.get, PROCESSES), without_client(cpu)]
        print(f"{name:<17}" + "".join(f"{'-' if cell is None else f'{cell * 1000:.1f}':>10}" for cell in cells))


def show_ratios(contenders: list[dict], ratios: dict[str, float]) -> None:
    bases = [base for base in BASES if any(one["name"] == base for one in contenders)]
    print(f"\n\n{'ratios':<17}" + "".join(f"{f'vs {base}':>14}" for base in bases))
    for one in contenders:
        cells = [ratios.get(f"{one['name']}_vs_{base}") for base in bases]
        print(f"{one['name']:<17}" + "".join(f"{'-' if cell is None else f'{cell:.2f}':>14}" for cell in cells))


# ---- two builds ----


@dataclass
class Pair:
    """The same contender in two builds."""

    old: Contender
    new: Contender

    @property
    def ratios(self) -> list[float]:
        """New to old, one ratio for each round."""
        return [new.rps / old.rps for old, new in zip(self.old.samples, self.new.samples)]


def pair_results(pairs: list[Pair], titles: dict[str, str]) -> dict[str, object]:
    return {
        "builds": titles,
        "against": [
            {
                "name": pair.new.name,
                "old": contender_figures(pair.old),
                "new": contender_figures(pair.new),
                "new_to_old": round(statistics.median(pair.ratios), 3),
                "rounds": [round(ratio, 3) for ratio in pair.ratios],
            }
            for pair in pairs
        ],
    }


def interval(ratios: list[float]) -> tuple[float, float]:
    """The 95 % interval of the geometric mean of such ratios (Student's t for 20 rounds)."""
    logs = [math.log(ratio) for ratio in ratios]
    mean, error = statistics.mean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean - 2.09 * error), math.exp(mean + 2.09 * error)


def show_pairs(result: dict) -> None:
    print()
    for name, title in result["builds"].items():
        print(f"{name}: {title}")
    heads = "".join(f"{name:>10}{'(min - max)':>20}" for name in ("old", "new"))
    print(f"\n{'answers/s':<17}{heads}{'new/old':>9}{'(min - max)':>15}{'95 % of the mean':>18}")
    for one in result["against"]:
        cells = ""
        for side in (one["old"], one["new"]):
            cells += f"{side['rps_median']:>10,.0f}{spread(side):>20}"
        between = f"({min(one['rounds']):.2f} - {max(one['rounds']):.2f})"
        likely = "({:.3f} - {:.3f})".format(*interval(one["rounds"])) if len(one["rounds"]) > 1 else "-"
        print(f"{one['name']:<17}{cells}{one['new_to_old']:>9.3f}{between:>15}{likely:>18}")
    sides = [(one["name"], name, one[name]) for one in result["against"] for name in ("old", "new")]
    print(f"\n{'':<22}{'p50 ms':>9}{'p99 ms':>9}{'commits/s':>11}")
    for contender, name, side in sides:
        committed = f"{side['committed_rps']:,.0f}" if "committed_rps" in side else "-"
        print(f"{contender:<17}{name:<5}{side['p50_ms']:>9.2f}{side['p99_ms']:>9.2f}{committed:>11}")
    show_cpu((f"{contender:<14}{name}", side["cpu_s_per_1000"]) for contender, name, side in sides)
