SELECT voucher_id, status, allowed, document FROM find_for_move($1::integer, $2::uuid, $3, $4::order_status)
