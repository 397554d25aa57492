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

ROWS = [
    *rows_again.ROWS,
    *rows_damage.ROWS,
    *rows_many.ROWS,
    *rows_pairs.ROWS,
    *rows_redis.ROWS,
    *rows_window.ROWS,
    *rows_admin.ROWS,
    *rows_clients.ROWS,
    *rows_known.ROWS,
]
