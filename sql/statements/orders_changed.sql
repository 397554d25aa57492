SELECT n, document FROM orders_changed($1::integer[], $2::uuid[], $3::text[], $4::text[])
