SELECT payments FROM count_to_refund($1::integer)
