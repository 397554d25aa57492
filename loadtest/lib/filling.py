"""Orders of a voucher without purchases: written straight into PostgreSQL. A rebuild loads them into Redis."""

from __future__ import annotations

from lib.common import Postgres, Voucher

# Ids in the order of the rows, 20 in a ms, as a sale creates them: a scan by id reads each page of the table once.
# Users have names that oversell.lua would give one more thread. They take as much memory, and none is in the crowd.
ORDERS = """
INSERT INTO voucher_order (id, slot, user_id, voucher_id, created_at, status)
SELECT (lpad(to_hex((extract(epoch FROM now() - interval '{age_s} s') * 1000)::bigint - ({orders} * {each} - n) / 20), 12, '0')
        || '7' || lpad(to_hex(n % 4096), 3, '0') || '8' || lpad(to_hex(n), 15, '0'))::uuid,
       slot_of('{id}'), 'u0-' || n, {id}, now() - interval '{age_s} s',
       CASE WHEN n % {each} = 0 THEN 'unpaid' ELSE 'cancelled' END::order_status
  FROM generate_series(1, {orders} * {each}) AS n;
UPDATE voucher_stock SET stock = stock - {orders}, live = live + {orders} WHERE voucher_id = {id};
"""


def fill(postgres: Postgres, voucher: Voucher, orders: int, age_s: int = 0, ended_each: int = 0) -> None:
    """Writes `orders` live orders, and `ended_each` cancelled ones before each of them."""
    postgres.rows(ORDERS.format(id=voucher.id, orders=orders, age_s=age_s, each=ended_each + 1))
