SELECT tx, seq, document FROM latest_events($1::integer, $2::integer, $3::text)
