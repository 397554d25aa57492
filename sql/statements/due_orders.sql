SELECT due, walked_to, next_ms, now_ms FROM due_orders($1::integer, $2::bigint, $3::uuid, $4::integer)
