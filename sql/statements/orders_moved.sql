SELECT seen, id FROM orders_moved($1)
