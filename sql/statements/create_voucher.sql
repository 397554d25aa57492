-- `loading`: the answer while Redis may not have the voucher yet. One that is not open sells to no one, loaded or not.
SELECT outcome, id, epoch, document, CASE document ->> 'state' WHEN 'open' THEN loading ELSE document END AS loading,
       change
  FROM create_voucher($1, $2, $3::bigint, $4::integer, $5::bigint, $6::bigint, $7::smallint, $8::integer, $9,
                      $10, $11::integer::boolean, $12::smallint, $13, $14, $15::integer,
                      $16::smallint, $17::bigint, $18::bigint, $19::jsonb)
