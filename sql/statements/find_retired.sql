SELECT state, live_id FROM find_retired($1::bigint, $2)
