SELECT orders, waits, offer FROM find_dead_letter($1::integer, $2::bigint, $3::bigint)
