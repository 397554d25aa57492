SELECT id, documents FROM list_to_refund($1::bigint, $2::uuid, $3::integer)
