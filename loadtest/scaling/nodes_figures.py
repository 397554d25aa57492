"""The results of the table `nodes`."""

from __future__ import annotations

from lib.figures import spread
from scaling.scaling_figures import cpu_ms


def show(rows: list[dict]) -> None:
    print(f"\n{'masters, shards,':<26}{'':>37}CPU ms for 1,000 answers{'':>14}busiest node's share")
    print(
        f"{'vouchers':<26}{'answers/s':>10}{'(min - max)':>18}{'p99 ms':>9}"
        f"{'service':>10}{'redis':>8}{'postgres':>10}{'sum':>8}{'master':>11}{'shard':>8}"
    )
    for row in rows:
        show_row(row)
    show_links(rows)


def show_row(row: dict) -> None:
    cpu = {process: seconds * 1000 for process, seconds in row["cpu_s_per_1000"].items()}
    name = f"{row['masters']:>2}{row['shards']:>4}{row['vouchers']:>8,}{', refused' if row['refused_all'] else ''}"
    cells = f"{name:<26}{row['rps_median']:>10,.0f}{spread(row):>18}{row['p99_ms']:>9.1f}"
    cells += f"{cpu['server']:>10.1f}{cpu['redis']:>8.1f}{cpu['postgres']:>10.1f}{cpu_ms(row):>8.1f}"
    print(cells + f"{row['busiest_redis']:>11.0%}{row['busiest_postgres']:>8.0%}")


def show_links(rows: list[dict]) -> None:
    """With one voucher: what is left then belongs to the links."""
    print(f"\n{'a reactor at rest':<26}{'':>30}CPU ms a second")
    print(f"{'masters, shards':<26}{'links':>10}{'service MB':>14}{'service':>10}{'redis':>8}{'postgres':>10}")
    for row in rows:
        if row["vouchers"] == 1:
            name, cells = f"{row['masters']:>2}{row['shards']:>4}", f"{row['links']:>10,.0f}{row['rest_bytes'] / 1e6:>14.1f}"
            cells += f"{row['rest_server_ms']:>10.2f}{row['rest_redis_ms']:>8.2f}{row['rest_postgres_ms']:>10.2f}"
            print(f"{name:<26}{cells}")
