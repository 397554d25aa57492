SELECT n, outcome, user_id, units, nth, heirs, came_by
  FROM return_orders($1::integer, $2::bigint, $3::bigint, $4::uuid[], $5, $6, $7, $8)
