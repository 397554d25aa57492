SELECT outcome, document FROM pay_order($1::integer, $2::uuid, $3, $4::bigint, $5, $6)
