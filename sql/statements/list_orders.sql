SELECT id, document, voucher_id FROM list_orders($1, $2::uuid, $3::integer, $4::uuid[], $5::bigint[])
