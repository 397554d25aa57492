INSERT INTO seckill_voucher AS v (title, price_cents, initial_stock, stock, begin_at, end_at)
VALUES ($1, $2::bigint, $3::integer, $3::integer,
        to_timestamp($4::bigint / 1000.0), to_timestamp($5::bigint / 1000.0))
RETURNING v.id, voucher_json(v)
