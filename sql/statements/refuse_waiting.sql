SELECT refused, waiting FROM refuse_waiting($1::integer, $2::bigint, $3::integer)
