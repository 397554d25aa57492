SELECT id, user_id FROM write_off($1::bigint, $2::bigint)
