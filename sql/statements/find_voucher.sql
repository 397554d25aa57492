SELECT v.id, (extract(epoch FROM v.begin_at) * 1000)::bigint, (extract(epoch FROM v.end_at) * 1000)::bigint,
       voucher_json(v)
  FROM seckill_voucher v
 WHERE v.id = $1::bigint
