SELECT id, document FROM list_vouchers($1, $2::bigint, $3::integer)
