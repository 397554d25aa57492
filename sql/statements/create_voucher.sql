SELECT outcome, id, epoch, document, loading, change
  FROM create_voucher($1, $2, $3::bigint, $4::integer, $5::bigint, $6::bigint, $7::smallint, $8::integer, $9,
                      $10, $11::integer::boolean, $12::smallint, $13, $14)
