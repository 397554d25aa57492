SELECT n, outcome FROM refuse_orders($1::bigint, $2::uuid[], $3::text[], $4::text[])
