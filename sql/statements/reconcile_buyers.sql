-- One chunk of a voucher's buyers, live orders and held ones, in the order of their ids.
(SELECT id, user_id
   FROM voucher_order
  WHERE voucher_id = $1::bigint AND status IN ('unpaid', 'paid') AND id > $2::uuid
  ORDER BY id
  LIMIT 1000)
UNION ALL
(SELECT id, user_id FROM held_order WHERE voucher_id = $1::bigint AND id > $2::uuid ORDER BY id LIMIT 1000)
ORDER BY id
LIMIT 1000
