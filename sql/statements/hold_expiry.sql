SELECT document FROM hold_expiry($1::bigint, $2::integer::boolean, $3)
