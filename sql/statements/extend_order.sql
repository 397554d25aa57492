SELECT outcome, status, document FROM extend_order($1::integer, $2::uuid, $3, $4::integer, $5)
