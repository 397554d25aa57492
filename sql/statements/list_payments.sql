SELECT id, documents FROM list_payments($1::bigint, $2::uuid, $3::integer)
