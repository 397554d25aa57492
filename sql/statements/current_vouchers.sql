-- Vouchers that may have orders under way: on sale, or ended a short while ago.
SELECT id, (extract(epoch FROM begin_at) * 1000)::bigint, (extract(epoch FROM end_at) * 1000)::bigint
  FROM seckill_voucher
 WHERE begin_at < now() AND end_at > now() - interval '1 day'
 ORDER BY id DESC
 LIMIT 1000
