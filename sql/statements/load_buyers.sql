-- One chunk of a voucher's live orders, in the order of their ids.
SELECT id, user_id
  FROM voucher_order
 WHERE voucher_id = $1::bigint AND status IN ('unpaid', 'paid') AND id > $2::uuid
 ORDER BY id
 LIMIT 1000
