SELECT outcome, document, change, state, left_units
  FROM change_voucher($1::bigint, $2::bigint, $3, $4, $5, $6::bigint, $7, $8::bigint, $9::bigint, $10::smallint,
                      $11::integer, $12::integer::boolean, $13::smallint, $14, $15, $16::integer,
                      $17::smallint, $18::bigint, $19::jsonb)
