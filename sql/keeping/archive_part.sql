SELECT part, orders, events, payments, digest FROM archive_part($1::bigint, $2::integer)
