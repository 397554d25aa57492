SELECT voucher_id, outcome FROM archive_next($1::bigint, $2::integer)
