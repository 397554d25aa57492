SELECT find_any_order($1::integer, $2::uuid)
