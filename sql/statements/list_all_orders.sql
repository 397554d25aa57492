SELECT id, document
  FROM list_all_orders($1::bigint, $2::order_status, to_timestamp($3::bigint / 1000.0), to_timestamp($4::bigint / 1000.0),
                       $5::uuid, $6::integer)
