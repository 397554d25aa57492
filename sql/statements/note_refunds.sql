SELECT outcome, voucher_id, status, document FROM note_refunds($1::integer, $2::uuid, $3, $4, $5)
