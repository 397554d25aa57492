"""The rows that stand in files of their own."""

import rows_admin
import rows_again
import rows_clients
import rows_damage
import rows_known
import rows_many
import rows_pairs
import rows_redis
import rows_window

MODULES = [
    rows_admin,
    rows_again,
    rows_clients,
    rows_damage,
    rows_known,
    rows_many,
    rows_pairs,
    rows_redis,
    rows_window,
]
ROWS = [row for module in MODULES for row in module.ROWS]
