SELECT n, outcome, live_id, first_id, created_ms, gone_by, batch,
       buyer_value(($1::integer[])[batch], ($2::bigint[])[batch], live_id) AS live
  FROM place_batches($1::integer[], $2::bigint[], $3::bigint[], $4::integer[], $5::uuid[], $6::text[], $7::text[],
                     $8::smallint[], $9::text[], $10::integer[])
