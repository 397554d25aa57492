SELECT id, begin_ms, end_ms, document, change FROM find_voucher($1::bigint)
