-- The newest orders of one user: their ids, and the finished text of each. After them, without a text, those of the
-- orders $2, of the vouchers $3, that are pending: Redis has them and PostgreSQL does not. Both are of one moment, so an
-- order that is settled just now is shown once, and one that is older than the newest is not taken for pending.
SELECT l.id, l.document, l.voucher_id
  FROM (SELECT o.id, order_json(o) AS document, o.voucher_id
          FROM (SELECT * FROM voucher_order WHERE user_id = $1 AND status IN ('unpaid', 'paid')
                UNION ALL
                SELECT * FROM voucher_order WHERE user_id = $1 AND status IN ('cancelled', 'refused')
                ORDER BY id DESC
                LIMIT 100) o
        UNION ALL
        SELECT p.id, NULL, p.voucher_id
          FROM unnest($2::uuid[], $3::bigint[]) AS p (id, voucher_id)
         WHERE NOT EXISTS (SELECT FROM voucher_order own WHERE own.id = p.id)) l
 ORDER BY l.document IS NULL, l.id DESC
