SELECT tx, seq, document FROM order_events($1::xid8, $2::bigint, $3::integer, $4::text)
