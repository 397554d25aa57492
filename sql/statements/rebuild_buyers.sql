SELECT id, user_id, value, ended FROM rebuild_buyers($1::integer, $2::bigint, $3::uuid, $4::integer)
