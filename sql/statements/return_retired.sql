SELECT return_retired($1::integer, $2::bigint, $3::uuid, $4, $5, $6)
