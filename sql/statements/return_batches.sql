SELECT n, outcome, user_id, units, nth, heirs, came_by, batch
  FROM return_batches($1::integer[], $2::bigint[], $3::bigint[], $4::integer[], $5::uuid[], $6, $7, $8, $9::text[])
