"""The table: every row of the suite, in the order of the list. The rows are in rows_*.py by theme, each with its inject
function, which breaks something while the crowd buys, and repairs it.

The bounds of a row, for a crowd of 350 a second of whom two in three are new:
- refused_202: orders that only Redis had, and lost, retry the reservation and may get no unit. These are the orders
  that wait for PostgreSQL: those of a tenth of a second usually, of half a second where orders are held. Users who
  bought again in between have another order (6f). If Redis loses nothing, no user is refused.
- rebuilds: one for each loss or restart of Redis, and one by an instance that checked just before; if a reconcile is
  interrupted, that one too.
- unknown: the share of the run in which buyers get no answer although Redis answers the suite directly (times at
  which it does not are excluded). A fault begins at three tenths of the run.
"""

from __future__ import annotations

import re

import rows_admin
import rows_again
import rows_alone
import rows_attackers
import rows_clients
import rows_clocks
import rows_cluster
import rows_costs
import rows_crowding
import rows_damage
import rows_instances
import rows_journal
import rows_life
import rows_limits
import rows_lines
import rows_links
import rows_losses
import rows_many
import rows_offers
import rows_operators
import rows_orphans
import rows_pairs
import rows_postgres
import rows_redis
import rows_reopening
import rows_repeats
import rows_resources
import rows_sales
import rows_scopes
import rows_sessions
import rows_shards
import rows_standby
import rows_window
from fault import Fault

MODULES = [
    rows_admin,
    rows_again,
    rows_alone,
    rows_attackers,
    rows_clients,
    rows_clocks,
    rows_cluster,
    rows_costs,
    rows_crowding,
    rows_damage,
    rows_instances,
    rows_journal,
    rows_life,
    rows_limits,
    rows_lines,
    rows_links,
    rows_losses,
    rows_many,
    rows_offers,
    rows_operators,
    rows_orphans,
    rows_pairs,
    rows_postgres,
    rows_redis,
    rows_reopening,
    rows_repeats,
    rows_resources,
    rows_sales,
    rows_scopes,
    rows_sessions,
    rows_shards,
    rows_standby,
    rows_window,
]


def place(fault: Fault) -> tuple[int, str]:
    number = re.match("[0-9]+", fault.name).group()
    return int(number), fault.name


FAULTS = sorted((fault for module in MODULES for fault in module.ROWS), key=place)
