SELECT webhook_took($1, $2::xid8, $3::bigint, $4::xid8, $5::bigint)
