SELECT archive_drop($1::bigint, $2::integer, $3::integer, $4)
