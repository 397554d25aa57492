SELECT outcome, document, change, state, left_units FROM set_voucher_state($1::bigint, $2::bigint, $3, $4, $5)
