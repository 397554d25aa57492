SELECT outcome, document, change, state, left_units FROM may_remove_units($1::bigint, $2::bigint, $3, $4::integer)
