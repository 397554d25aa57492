SELECT stock, (extract(epoch FROM begin_at) * 1000)::bigint, (extract(epoch FROM end_at) * 1000)::bigint, state
  FROM seckill_voucher
 WHERE id = $1::bigint AND epoch = $2::bigint
