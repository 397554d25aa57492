SELECT d.orders, d.ended_at IS NULL FROM dead_letter d WHERE d.voucher_id = $1::bigint AND d.id = $2::bigint
