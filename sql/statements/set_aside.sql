SELECT set_aside($1::integer, $2::bigint, $3, $4::bytea, $5, $6, $7::integer)
