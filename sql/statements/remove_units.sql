SELECT outcome, document, change, state, left_units
  FROM remove_units($1::integer, $2::bigint, $3::bigint, $4::bigint, $5, $6, $7::integer)
