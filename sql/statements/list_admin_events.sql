SELECT tx, seq, document FROM list_admin_events($1::bigint, $2::xid8, $3::bigint, $4::integer)
