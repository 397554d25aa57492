"""The table: every row of the suite, in the order of the list. The rows stand by theme in rows_*.py, each with what it
injects: it breaks something while the crowd buys, and mends it.

The bounds of a row, for a crowd of 350 a second of whom two in three are new:
- refused_202: what Redis loses while it is in no other place is asked for again, and may be gone by then. That is what
  waits for PostgreSQL: a tenth of a second's orders at most times, all of half a second's where orders are held. Who
  bought again in between has another order (6f). Where Redis loses nothing, no user is refused.
- rebuilds: one for each loss, or restart, of Redis, and one by an instance that looked just before; where a reconcile is
  interrupted, that one too.
- unknown: the part of the run in which the buyers get no answer though Redis, asked directly, gives one (what it does
  not answer us is not counted). A fault begins at three tenths of the run.
"""

from __future__ import annotations

import re

import rows_admin
import rows_again
import rows_attackers
import rows_clients
import rows_clocks
import rows_costs
import rows_crowding
import rows_damage
import rows_instances
import rows_journal
import rows_life
import rows_limits
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
import rows_sessions
import rows_window
from fault import Fault

MODULES = [
    rows_admin,
    rows_again,
    rows_attackers,
    rows_clients,
    rows_clocks,
    rows_costs,
    rows_crowding,
    rows_damage,
    rows_instances,
    rows_journal,
    rows_life,
    rows_limits,
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
    rows_sessions,
    rows_window,
]


def place(fault: Fault) -> tuple[int, str]:
    number = re.match("[0-9]+", fault.name).group()
    return int(number), fault.name


FAULTS = sorted((fault for module in MODULES for fault in module.ROWS), key=place)
