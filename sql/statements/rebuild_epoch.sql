SELECT rebuild_epoch($1::integer, $2::bigint, $3::bigint)
