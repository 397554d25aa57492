SELECT n, outcome, live_id FROM place_orders($1::bigint, $2::bigint, $3::uuid[], $4::text[], $5)
