SELECT note_phase($1::integer, $2::bigint, $3::text)
