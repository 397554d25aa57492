SELECT webhook_operate($1, $2, $3::xid8, $4::bigint, $5::xid8, $6::bigint)
