SELECT retire_voucher($1::bigint, $2::integer, $3::bigint)
