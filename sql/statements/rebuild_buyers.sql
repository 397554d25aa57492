SELECT id, kind, field, value, nth
  FROM rebuild_buyers($1::integer, $2::bigint, $3::uuid, $4::integer, $5::integer)
