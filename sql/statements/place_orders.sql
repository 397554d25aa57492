SELECT n, outcome, live_id FROM place_orders($1::integer, $2::bigint, $3::bigint, $4::uuid[], $5::text[], $6)
