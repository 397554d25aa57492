SELECT coalesce(json_agg(voucher_json(v) ORDER BY v.id DESC), '[]')
  FROM (SELECT * FROM seckill_voucher WHERE state = 'open' ORDER BY id DESC LIMIT 100) v
