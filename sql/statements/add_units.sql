SELECT outcome, document, change, state, left_units FROM add_units($1::bigint, $2::bigint, $3, $4, $5::integer)
