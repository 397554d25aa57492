SELECT order_json(o) FROM voucher_order o WHERE o.id = $1::uuid AND o.user_id = $2
