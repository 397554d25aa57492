-- One chunk of a voucher's buyers, live orders and held ones, in the order of their ids. The limit is CHUNK of
-- reconcile.c.
(SELECT id, user_id
   FROM voucher_order
  WHERE voucher_id = $1::bigint AND status IN ('unpaid', 'paid') AND id > $2::uuid
  ORDER BY id
  LIMIT 500)
UNION ALL
(SELECT id, user_id FROM held_order WHERE voucher_id = $1::bigint AND id > $2::uuid ORDER BY id LIMIT 500)
ORDER BY id
LIMIT 500
