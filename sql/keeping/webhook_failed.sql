SELECT webhook_failed($1, $2::xid8, $3::bigint, $4, $5, $6::timestamptz, $7::xid8, $8::bigint, $9)
