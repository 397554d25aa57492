-- Segments of vouchers that may have orders under way: on sale (or soon), or ended a short while ago. With each, what
-- Redis must agree with. One that was made just now is still being loaded by its maker.
WITH current AS (
    SELECT s.slot, s.voucher_id
      FROM seckill_voucher v
      JOIN seckill_segment s ON s.voucher_id = v.id
     WHERE v.begin_at < now() + interval '1 hour' AND v.end_at > now() - interval '1 day' AND v.state <> 'retired'
       AND (s.epoch > 0 OR v.created_at < now() - interval '3 seconds')
     ORDER BY v.id DESC
     LIMIT 1000)
SELECT voucher_id, epoch, journal_ms, journal_seq, stock, buyers
  FROM segment_accounts(ARRAY(SELECT slot::integer FROM current), ARRAY(SELECT voucher_id FROM current))
