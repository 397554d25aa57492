SELECT outcome, orders, rewritten FROM erase_in_part($1::bigint, $2::integer, $3, $4, $5)
