"""The rows that stand in files of their own."""

import rows_clients
import rows_damage
import rows_many
import rows_pairs
import rows_redis
import rows_window

ROWS = [*rows_clients.ROWS, *rows_damage.ROWS, *rows_many.ROWS, *rows_pairs.ROWS, *rows_redis.ROWS, *rows_window.ROWS]
