SELECT parts, orders, events, payments FROM archive_end($1::bigint)
