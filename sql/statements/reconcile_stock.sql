-- What the voucher is to be opened with, at one moment: stock, terms, number of buyers.
SELECT greatest(v.stock - h.units, 0),
       (extract(epoch FROM v.begin_at) * 1000)::bigint, (extract(epoch FROM v.end_at) * 1000)::bigint, v.state,
       h.users + (SELECT count(*) FROM voucher_order o WHERE o.voucher_id = v.id AND o.status IN ('unpaid', 'paid'))
  FROM seckill_voucher v,
       (SELECT count(*) AS units, count(DISTINCT user_id) AS users FROM held_order WHERE voucher_id = $1::bigint) h
 WHERE v.id = $1::bigint AND v.epoch = $2::bigint
