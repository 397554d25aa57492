SELECT id, user_id, waiting, full_now, joined FROM line_users($1::integer, $2::bigint, $3::uuid, $4::integer)
