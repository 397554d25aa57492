SELECT id, document FROM find_vouchers($1, $2::bigint, $3::integer, $4)
