-- Vouchers that may have orders under way: on sale (or soon), or ended a short while ago. With each, what
-- Redis must agree with: epoch, newest journal id, units not given out, buyers. One that was made just now is
-- still being loaded by whoever made it.
SELECT v.id, v.epoch, v.journal_ms, v.journal_seq,
       greatest(v.stock - coalesce(h.units, 0), 0),
       v.initial_stock - v.stock + coalesce(h.users, 0)
  FROM seckill_voucher v
  LEFT JOIN (SELECT voucher_id, count(*) AS units, count(DISTINCT user_id) AS users
               FROM held_order GROUP BY voucher_id) h ON h.voucher_id = v.id
 WHERE v.begin_at < now() + interval '1 hour' AND v.end_at > now() - interval '1 day'
   AND (v.epoch > 0 OR v.created_at < now() - interval '3 seconds')
 ORDER BY v.id DESC
 LIMIT 1000
