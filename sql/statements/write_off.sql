SELECT id, user_id, quantity FROM write_off($1::integer, $2::bigint, $3::bigint)
