-- The newest orders of one user: their ids, and the finished text of each.
SELECT o.id, order_json(o)
  FROM (SELECT * FROM voucher_order WHERE user_id = $1 AND status IN ('unpaid', 'paid')
        UNION ALL
        SELECT * FROM voucher_order WHERE user_id = $1 AND status IN ('cancelled', 'refused')
        ORDER BY id DESC
        LIMIT 100) o
