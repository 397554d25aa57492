SELECT change, state, begin_ms, end_ms, added, offer FROM voucher_changes($1::integer, $2::bigint, $3::bigint)
