SELECT outcome, id, epoch, document, loading
  FROM create_voucher($1, $2, $3::bigint, $4::integer, $5::bigint, $6::bigint)
