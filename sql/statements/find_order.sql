SELECT find_order($1::integer, $2::uuid, $3)
