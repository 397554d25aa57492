SELECT id, document FROM list_dead_letters($1::integer, $2::bigint, $3::bigint, $4::integer)
