SELECT id, begin_ms, end_ms, document FROM find_voucher($1::bigint)
